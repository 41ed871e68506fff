//! The board: a supply that ends, pins, interrupts, and what is lost.

use msp430_emu::Image;
use msp430_emu::fr5994::{BOOT, Ended, Node, Outside};

/// A program from words.
fn node(words: &[u16], port1: u16) -> Node {
    let code = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let vector = |at: u16, to: u16| (at, to.to_le_bytes().to_vec());
    let mut image = Image::default();
    image.segments = vec![
        (0x5000, code),
        vector(0xFFFE, 0x5000),
        vector(0xFFDE, port1),
    ];
    Node::new(&image)
}

/// bic #1, &PM5CTL0; mov.b #v, &P3OUT; mov.b #-1, &P3DIR; dint; bis #CPUOFF, sr
const SHOWS: [u16; 12] = [
    0xC392, 0x0130, 0x40F2, 0x0005, 0x0222, 0x43F2, 0x0224, 0xC232, 0xD032, 0x0010, 0x3FFF, 0,
];

#[test]
fn leds_show_what_a_program_writes() {
    let mut n = node(&SHOWS, 0);
    n.power_on(1);
    assert_eq!(n.run(u64::MAX, |_| ()), Ended::Stopped);
    assert_eq!((n.leds().lit(), n.leds().changes()), (5, 1));
    assert_eq!(n.mistake(), None);
    // Hardware boot, and a few instructions at 1 MHz.
    assert!((BOOT + 16 * 10..BOOT + 16 * 40).contains(&n.now()));
    // Before LOCKLPM5 is cleared, nothing reaches the pins.
    let mut n = node(&SHOWS[2..], 0);
    n.power_on(1);
    assert_eq!(n.run(u64::MAX, |_| ()), Ended::Stopped);
    assert_eq!((n.leds().lit(), n.leds().changes()), (0, 0));
}

#[test]
fn the_supply_ends_and_takes_the_pins_with_it() {
    // The last word: jmp to itself.
    let mut n = node(&[&SHOWS[..7], &[0x3FFF]].concat(), 0);
    n.power_on(1);
    assert_eq!(n.run(BOOT + 10_000, |_| ()), Ended::Cut);
    assert_eq!(n.leds().lit(), 5);
    n.power_on(2);
    assert_eq!((n.leds().lit(), n.leds().seen()), (0, 5));
    assert_eq!(n.run(BOOT + 16, |_| ()), Ended::Cut);
    assert_eq!(n.leds().lit(), 0);
}

#[test]
fn a_button_wakes_the_core() {
    // mov #0x2400, sp; bic #1, &PM5CTL0; mov.b #2, &P1IES; clr.b &P1IFG; mov.b #2, &P1IE
    // bis #GIE | CPUOFF, sr; nop; mov.b &P1IV, r4; mov.b r4, &P3OUT; mov.b #-1, &P3DIR
    // bis #CPUOFF, sr
    let program = [
        0x4031, 0x2400, 0xC392, 0x0130, 0x43E2, 0x0218, 0x43C2, 0x021C, 0x43E2, 0x021A, 0xD032,
        0x0018, 0x4303, 0x4254, 0x020E, 0x44C2, 0x0222, 0x43F2, 0x0224, 0xD032, 0x0010, 0x3FFF,
        // The handler, at 0x502C: bic #GIE | CPUOFF, 0(sp); reti
        0xC0B1, 0x0018, 0x0000, 0x1300,
    ];
    let mut n = node(&program, 0x502C);
    n.power_on(1);
    assert_eq!(n.run(BOOT + 50_000, |_| ()), Ended::Cut, "it sleeps");
    n.power_on(1);
    n.plan(BOOT + 20_000, Outside::Press(0));
    assert_eq!(n.run(BOOT + 50_000, |_| ()), Ended::Stopped);
    assert_eq!((n.leds().lit(), n.buttons().acknowledged()), (4, 1));
    assert!(
        (BOOT + 20_000..BOOT + 21_000).contains(&n.now()),
        "{}",
        n.now()
    );
}
