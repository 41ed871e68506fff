# Interrupts of an RV32IMC core. The scenario chooses; each handler stores what it finds.
    .option norelax
    .option norvc
    .section .text
reset:
    lui s0, 0x80100
    lui s1, 0x80110
    lui s2, 0x2000
    lui s3, 0x2004
    sh zero, 4(s1)
    lhu a4, 0(s1)
    li s4, 0
    j choose

    .balign 256
vectors:
    j direct
    j fail
    j fail
    j software
    j fail
    j fail
    j fail
    j timer

choose:
    # The vectors, 256 bytes behind the start.
    lui t0, 0x80000
    addi t0, t0, 0x100
    beqz a4, 1f
    ori t0, t0, 1
1:  csrw mtvec, t0
    li t1, 0x88
    csrw mie, t1
    # The timer, far away.
    sw zero, 4(s3)
    li t1, 0x7FF
    sw t1, 0(s3)
    li a5, 2
    beq a4, a5, both
    li a5, 3
    beq a4, a5, sleep
    li a5, 4
    beq a4, a5, masked
    # 0 and 1: a software interrupt, before the next instruction.
    csrsi mstatus, 8
    li t1, 1
    sw t1, 0(s2)
    sw s4, 0(s0)
    j finish

# Both are pending when they are enabled: the software's is first, the timer's right after its end.
both:
    li t1, 1
    sw t1, 0(s2)
    sw zero, 0(s3)
    csrsi mstatus, 8
    sw s4, 0(s0)
    j finish

# The core waits, with interrupts masked, and goes on when the instant comes.
sleep:
    wfi
    sw s4, 0(s0)
    csrsi mstatus, 8
    sw s4, 4(s0)
    j finish

# What is pending and not enabled in mie is not taken.
masked:
    li t1, 0x80
    csrw mie, t1
    li t1, 1
    sw t1, 0(s2)
    csrsi mstatus, 8
    sw s4, 0(s0)
    j finish

direct:
    csrr t2, mcause
    slli t2, t2, 1
    li t1, 6
    beq t2, t1, software
    li t1, 14
    beq t2, t1, timer
    j fail

# Each appends a digit, and ends what made it pending.
software:
    slli s4, s4, 4
    ori s4, s4, 3
    sw zero, 0(s2)
    mret
timer:
    slli s4, s4, 4
    ori s4, s4, 7
    lui t1, 0x7FFFF
    sw t1, 0(s3)
    mret

finish:
    li a5, 1
    sh a5, 4(s1)
    j .
fail:
    li a5, 9
    sh a5, 6(s1)
    li a5, 2
    sh a5, 4(s1)
    j .
