; The scenarios of the rig's own tests, for the MSP430: as arm.s, number by number. A unit has two bytes.
    .text
reset:
    mov #0x4000, r4
    mov #0x1800, r5
    mov #0, 4(r5)
    mov 0(r4), r6
    mov 2(r4), r7
    mov 0(r5), r8
    cmp #0, r8
    jeq right
    cmp #1, r8
    jeq wrong_order
    cmp #2, r8
    jeq wide
    cmp #3, r8
    jeq hang
    cmp #4, r8
    jeq code
    cmp #5, r8
    jeq undefined
    cmp #6, r8
    jeq garbage
    cmp #7, r8
    jeq outside
    cmp #8, r8
    jeq nowhere
    cmp #10, r8
    jeq condition
    cmp #11, r8
    jeq register
    cmp #12, r8
    jeq device
    cmp #13, r8
    jeq sensor
    cmp #14, r8
    jeq narrow
    jmp fail

right:
    mov #3, r9
    mov r9, 4(r4)
    mov r9, 0(r4)
    mov r9, 2(r4)
    mov #0, 4(r4)
    jmp finish

wrong_order:
    cmp r6, r7
    jne fail
    mov #1, 0(r4)
    mov #1, 2(r4)
    jmp finish

; A u32 in registers, stored as the compiler does it: two units, which it says are one.
wide:
    cmp r6, r7
    jne fail
    mov #1, r9
    mov r9, r10
    mov r9, 0(r4)
    mov r10, 2(r4)
    jmp finish

hang:
    cmp #1, r6
1:  jeq 1b
    mov #1, 0(r4)
    mov #2, 0(r4)
    jmp finish

code:
    cmp #1, r6
    jne 1f
    mov #0x5000, r9
    mov #0, 16(r9)
1:  mov #1, 0(r4)
    mov #2, 0(r4)
    jmp finish

undefined:
    cmp #1, r6
    jne 1f
    .word 0
1:  mov #1, 0(r4)
    mov #2, 0(r4)
    jmp finish

garbage:
    cmp #0, r6
    jeq 1f
    mov r11, 2(r4)
1:  mov #1, 0(r4)
    jmp finish

outside:
    cmp #1, r6
    jne 1f
    mov r6, 64(r4)
1:  mov #1, 0(r4)
    mov #2, 0(r4)
    jmp finish

nowhere:
    cmp #1, r6
    jne 1f
    mov #0x3c00, r9
    mov 0(r9), r9
1:  mov #1, 0(r4)
    mov #2, 0(r4)
    jmp finish

; There are no conditions of that kind here.
condition:
    mov #1, 0(r4)
    jmp finish

register:
    mov 16(r5), r9
    cmp r9, r6
    jlo fail
    mov #1, r9
    mov r9, 16(r5)
    add #1, r9
    mov r9, 0(r4)
    mov r9, 16(r5)
    jmp finish

device:
    cmp #0, &0x0f20
    jne fail
    cmp &0x0f22, r6
    jlo fail
    mov #0xff, &0x0f02
    mov #1, &0x0f00
    mov #1, 0(r4)
    jmp finish

sensor:
    mov #2000, &0x0f0a
    mov #3, &0x0f0c
    mov #3, &0x0f0e
1:  cmp #0, &0x0f0e
    jne 1b
    mov &0x0f10, r9
    cmp #2048, r9
    jne fail
    mov r9, 0(r4)
    jmp finish

narrow:
    mov.b &0x0f00, r9
    mov r9, 0(r4)
    jmp finish

finish:
    mov #1, 4(r5)
1:  jmp 1b
fail:
    mov #9, 6(r5)
    mov #2, 4(r5)
1:  jmp 1b
