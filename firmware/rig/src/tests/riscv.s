# The scenarios of the rig's own tests, for RV32IMC: as arm.s, number by number.
    .option norelax
    .section .text
reset:
    lui s0, 0x80100
    lui s1, 0x80110
    sh zero, 4(s1)
    lw a2, 0(s0)
    lw a3, 4(s0)
    lhu a4, 0(s1)
    li a5, 1
    beqz a4, right
    beq a4, a5, wrong_order
    li a5, 2
    beq a4, a5, wide
    li a5, 3
    beq a4, a5, hang
    li a5, 4
    beq a4, a5, code
    li a5, 5
    beq a4, a5, undefined
    li a5, 6
    beq a4, a5, garbage
    li a5, 7
    beq a4, a5, outside
    li a5, 8
    beq a4, a5, nowhere
    li a5, 10
    beq a4, a5, condition
    li a5, 11
    beq a4, a5, register
    lui s2, 0x10002
    li a5, 12
    beq a4, a5, device
    li a5, 13
    beq a4, a5, sensor
    li a5, 14
    beq a4, a5, narrow
    j fail

right:
    li a5, 3
    sw a5, 8(s0)
    sw a5, 0(s0)
    sw a5, 4(s0)
    sw zero, 8(s0)
    j finish

wrong_order:
    bne a2, a3, fail
    li a5, 1
    sw a5, 0(s0)
    sw a5, 4(s0)
    j finish

# One instruction, misaligned: two units, with a part in each.
wide:
    srli a5, a2, 24
    andi a4, a3, 0xFF
    bne a5, a4, fail
    li a5, 0x0101
    sh a5, 3(s0)
    j finish

hang:
    li a5, 1
    beq a2, a5, .
    sw a5, 0(s0)
    li a5, 2
    sw a5, 0(s0)
    j finish

code:
    li a5, 1
    bne a2, a5, 1f
    lui a4, 0x80000
    sw a5, 16(a4)
1:  sw a5, 0(s0)
    li a5, 2
    sw a5, 0(s0)
    j finish

undefined:
    li a5, 1
    bne a2, a5, 1f
    unimp
1:  sw a5, 0(s0)
    li a5, 2
    sw a5, 0(s0)
    j finish

garbage:
    beqz a2, 1f
    sw s7, 4(s0)
1:  li a5, 1
    sw a5, 0(s0)
    j finish

outside:
    li a5, 1
    bne a2, a5, 1f
    sw a2, 64(s0)
1:  sw a5, 0(s0)
    li a5, 2
    sw a5, 0(s0)
    j finish

nowhere:
    li a5, 1
    bne a2, a5, 1f
    lui a4, 0x80101
    lw a4, 0(a4)
1:  sw a5, 0(s0)
    li a5, 2
    sw a5, 0(s0)
    j finish

# There are no conditions of that kind here.
condition:
    li a5, 1
    sw a5, 0(s0)
    j finish

register:
    lhu a5, 16(s1)
    bltu a2, a5, fail
    li a5, 1
    sh a5, 16(s1)
    addi a5, a5, 1
    sw a5, 0(s0)
    sh a5, 16(s1)
    j finish

device:
    lhu a5, 32(s2)
    bnez a5, fail
    lhu a5, 34(s2)
    bltu a2, a5, fail
    li a5, 0xff
    sh a5, 2(s2)
    li a5, 1
    sh a5, 0(s2)
    sw a5, 0(s0)
    j finish

sensor:
    li a5, 2000
    sh a5, 10(s2)
    li a5, 3
    sh a5, 12(s2)
    sh a5, 14(s2)
1:  lhu a5, 14(s2)
    bnez a5, 1b
    lhu a5, 16(s2)
    li a4, 2048
    bne a5, a4, fail
    sw a5, 0(s0)
    j finish

narrow:
    lbu a5, 0(s2)
    sw a5, 0(s0)
    j finish

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
