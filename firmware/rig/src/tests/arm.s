// The scenarios of the rig's own tests, for the Cortex-M4: as riscv.s, number by number.
    .syntax unified
    .thumb
    .section .text
vectors:
    .word 0x20010000
    .word 9
reset:
    movw r0, #0
    movt r0, #0x2100
    movw r1, #0
    movt r1, #0x2101
    movs r2, #0
    strh r2, [r1, #4]
    ldr r2, [r0]
    ldr r3, [r0, #4]
    ldrh r4, [r1]
    cmp r4, #0
    beq right
    cmp r4, #1
    beq wrong_order
    cmp r4, #2
    beq wide
    cmp r4, #3
    beq hang
    cmp r4, #4
    beq code
    cmp r4, #5
    beq undefined
    cmp r4, #6
    beq garbage
    cmp r4, #7
    beq outside
    cmp r4, #8
    beq nowhere
    cmp r4, #10
    beq condition
    cmp r4, #11
    beq register
    movw r7, #0
    movt r7, #0x4003
    cmp r4, #12
    beq device
    cmp r4, #13
    beq sensor
    cmp r4, #14
    beq narrow
    b fail

// A value and its copy, told apart by a third word that is stored first and cleared last: any cut is repaired.
right:
    movs r5, #3
    str r5, [r0, #8]
    str r5, [r0]
    str r5, [r0, #4]
    movs r5, #0
    str r5, [r0, #8]
    b finish

// Both must be equal, and nothing repairs them.
wrong_order:
    cmp r2, r3
    bne fail
    movs r5, #1
    str r5, [r0]
    str r5, [r0, #4]
    b finish

// The same in one instruction of two units.
wide:
    cmp r2, r3
    bne fail
    movs r5, #1
    movs r6, #1
    strd r5, r6, [r0]
    b finish

hang:
    cmp r2, #1
    beq .
    movs r5, #1
    str r5, [r0]
    movs r5, #2
    str r5, [r0]
    b finish

code:
    cmp r2, #1
    bne 1f
    movs r5, #0
    str r5, [r5, #16]
1:  movs r5, #1
    str r5, [r0]
    movs r5, #2
    str r5, [r0]
    b finish

undefined:
    cmp r2, #1
    bne 1f
    udf #0
1:  movs r5, #1
    str r5, [r0]
    movs r5, #2
    str r5, [r0]
    b finish

// A register that nobody has set.
garbage:
    cmp r2, #0
    beq 1f
    str r9, [r0, #4]
1:  movs r5, #1
    str r5, [r0]
    b finish

outside:
    cmp r2, #1
    bne 1f
    str r2, [r0, #64]
1:  movs r5, #1
    str r5, [r0]
    movs r5, #2
    str r5, [r0]
    b finish

nowhere:
    cmp r2, #1
    bne 1f
    add r0, r0, #4096
    ldr r5, [r0]
1:  movs r5, #1
    str r5, [r0]
    movs r5, #2
    str r5, [r0]
    b finish

// A store in the middle of an if-then block; what follows it is under no condition.
condition:
    movs r5, #1
    movs r6, #0
    cmp r5, #1
    ittt eq
    streq r5, [r0]
    addeq r6, #1
    addeq r6, #1
    b 1f
1:  cmp r5, #0
    add r6, #1
    cmp r6, #3
    bne fail
    b finish

// A counter whose value is written to the mailbox before it is stored: the word stays in a register.
register:
    ldrh r5, [r1, #16]
    cmp r2, r5
    blo fail
    movs r5, #1
    strh r5, [r1, #16]
    adds r5, #1
    str r5, [r0]
    strh r5, [r1, #16]
    b finish

// A lamp is lit before the memory says so. The power has reset the port.
device:
    ldrh r5, [r7, #32]
    cmp r5, #0
    bne fail
    ldrh r5, [r7, #34]
    cmp r2, r5
    blo fail
    movs r5, #0xff
    strh r5, [r7, #2]
    movs r5, #1
    strh r5, [r7]
    str r5, [r0]
    b finish

// A conversion, which is waited for; its result is loaded in the middle of an if-then block.
sensor:
    movw r5, #2000
    strh r5, [r7, #10]
    movs r5, #3
    strh r5, [r7, #12]
    strh r5, [r7, #14]
1:  ldrh r5, [r7, #14]
    cmp r5, #0
    bne 1b
    movs r6, #0
    cmp r5, #0
    ittt eq
    ldrheq r5, [r7, #16]
    addeq r6, #1
    addeq r6, #1
    b 2f
2:  cmp r5, #0
    add r6, #1
    cmp r6, #3
    bne fail
    movw r6, #2048
    cmp r5, r6
    bne fail
    str r5, [r0]
    b finish

// Registers of devices are loaded whole.
narrow:
    ldrb r5, [r7]
    str r5, [r0]
    b finish

finish:
    movs r5, #1
    strh r5, [r1, #4]
    b .
fail:
    movs r5, #9
    strh r5, [r1, #6]
    movs r5, #2
    strh r5, [r1, #4]
    b .
