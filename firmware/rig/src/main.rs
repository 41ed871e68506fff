//! Cuts the power at every machine instruction of Relume's firmware, in an emulator, and checks what the next boot finds.

mod image;
mod machine;
mod state;
mod unicorn;
use machine::*;
use state::*;

fn go(m: &mut dyn Machine) {
    for s in 0..5 {
    let mut log = Log::default();
    let st = State::blank(1024, s, 0);
    for (detail, seed) in [(true, 1), (true, 2), (false, 1), (false, 3)] {
        let r = m.boot(&Boot { state: &st, seed, limit: 1_000_000, detail }, &mut log);
        println!("{s} {detail} {r:?} stores {} ", log.stores.len());
        if let End::Fault(f) = &r.end { println!("{f} at {} {:?}", m.image().name(f.pc), m.image().lines(f.pc)); let a = f.pc & !1; for d in m.disassemble(a.saturating_sub(8), a+8) { println!("{:x} {}", d.0, d.1) } }
        let mut now = State::blank(0, 0, 0);
        m.state(&mut now);
        println!("status {} failure {:x}", now.told(2), now.told(3));
    }
    let t = std::time::Instant::now();
    let mut n = 0;
    for i in 0..3000u64 { n += m.boot(&Boot { state: &st, seed: i & 1, limit: 1_000_000, detail: false }, &mut log).instructions; }
    let e = t.elapsed().as_secs_f64();
    println!("{:.0} boots/s {:.1} Minstr/s", 3000.0 / e, n as f64 / e / 1e6);
    }
}

fn main() {
    for a in std::env::args().skip(1) {
        let p = std::path::Path::new(&a);
        let i = image::Image::read("x", p).unwrap();
        println!("{a}");
        if a.contains("arm-") { go(&mut unicorn::arm::Arm::new(i).unwrap()) } else { go(&mut unicorn::riscv::RiscV::new(i).unwrap()) }
    }
}
