//! The node on a host: models of its chips, and a supply whose energy is harvested.

mod chips;
mod supply;

use anyhow::{Result, anyhow, ensure};
use chips::{Air, Bus, Spi};
use clap::Parser;
use lab_wsn::{BYTES, PACKETS, boot};
use std::fmt::Write as _;
use std::path::PathBuf;
use supply::{Life, Machine, Trace};

/// Runs a sensor node through the lives that harvested energy gives it
#[derive(Parser)]
struct Args {
    /// Seed of the generated trace of energy
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Instead of the trace: every life lasts so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    on_time: Option<u32>,
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Draw the lives, with what they did
    #[arg(long, value_name = "SVG", default_value = "target/demo/node.svg")]
    plot: PathBuf,
}

/// What a run has come to.
struct Run {
    lives: Vec<Life>,
    air: Air,
}

impl Run {
    fn micros(&self) -> u64 {
        self.lives.iter().map(|l| l.used).sum()
    }
}

/// Boots the node until it has ended. **Errors**: it never comes on.
fn run(mut on_time: impl FnMut() -> u64) -> Result<Run> {
    let mut machine = Machine::new(BYTES);
    let mut air = Air::default();
    let mut lives = Vec::new();
    let mut without = 0;
    loop {
        let packets = air.packets.len();
        let life = on_time();
        let (life, ended) = machine.live(life, |region, clock| {
            boot(region, Bus(clock), Spi::new(clock, &air))
        });
        air = air.settled();
        lives.push(Life {
            packets: air.packets.len() - packets,
            ..life
        });
        match ended {
            Some(done) => {
                done.map_err(|e| anyhow!(e))?;
                return Ok(Run { lives, air });
            }
            None if air.packets.len() > packets => without = 0,
            None => without += 1,
        }
        ensure!(
            without < 5000,
            "no packet in 5,000 lives: they are too short"
        );
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wired = run(|| u64::MAX)?;
    let mut trace = Trace::new(args.seed);
    let cut = run(|| match args.on_time {
        Some(ms) => u64::from(ms) * 1000,
        None => trace.on_time(),
    })?;
    let same = cut.air.packets == wired.air.packets && cut.air.packets.len() == PACKETS as usize;
    let ms = |micros: u64| micros as f64 / 1000.0;
    let yields = wired.micros() as f64 / cut.micros() as f64;
    let of = match args.on_time {
        Some(ms) => format!("lives of {ms} ms"),
        None => format!(
            "a generated trace, seed {}: lives of 3.5 to 42 ms",
            args.seed
        ),
    };
    println!("50 times: ten readings, their mean, one packet; tmp1x2 and rfm69 as they are");
    println!("{of}");
    println!("                     wired     harvested");
    println!("power cuts       {:>9} {:>13}", 0, cut.lives.len() - 1);
    println!(
        "on-time, ms      {:>9.1} {:>13.1}",
        ms(wired.micros()),
        ms(cut.micros())
    );
    println!(
        "packets arrived  {:>9} {:>13}",
        wired.air.packets.len(),
        cut.air.packets.len()
    );
    println!(
        "sent again       {:>9} {:>13}",
        wired.air.again, cut.air.again
    );
    println!("yield            {:>9.3} {:>13.3}", 1.0, yields);
    println!("the same packets: {}", if same { "yes" } else { "NO" });
    if let Some(folder) = args.plot.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&args.plot, plot(&cut))?;
    println!("timeline: {}", args.plot.display());
    if let Some(path) = args.json {
        let figures = serde_json::json!({
            "node_demo.cuts": cut.lives.len() - 1,
            "node_demo.packets": cut.air.packets.len(),
            "node_demo.sent_again": cut.air.again,
            "node_demo.on_time_ms": ms(cut.micros()),
            "node_demo.wired_ms": ms(wired.micros()),
            "node_demo.yield": yields,
            "node_demo.identical": u8::from(same),
        });
        std::fs::write(path, serde_json::to_string_pretty(&figures)? + "\n")?;
    }
    ensure!(
        same,
        "the packets differ from those of the run without cuts"
    );
    Ok(())
}

/// Each life is a bar from left to right: boot, restored devices, work; below it, its packets.
fn plot(run: &Run) -> String {
    let (width, top) = (1000.0, 40.0);
    let all = run.micros() as f64;
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1020\" height=\"130\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"20\">on-time of the node, from left to right; grey: boot, blue: up, red: a power cut, green: packets</text>\n",
    );
    let mut at = 0.0;
    for life in &run.lives {
        let x = 10.0 + at / all * width;
        let boot = life.boot.min(life.used) as f64 / all * width;
        let used = life.used as f64 / all * width;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.2}\" y=\"{top}\" width=\"{used:.2}\" height=\"30\" fill=\"#4e79a7\"/>\
             <rect x=\"{x:.2}\" y=\"{top}\" width=\"{boot:.2}\" height=\"30\" fill=\"#bbb\"/>\
             <rect x=\"{:.2}\" y=\"{top}\" width=\"0.6\" height=\"30\" fill=\"#e15759\"/>\
             <rect x=\"{x:.2}\" y=\"{:.2}\" width=\"{used:.2}\" height=\"{:.2}\" fill=\"#59a14f\"/>",
            x + used - 0.6,
            top + 36.0,
            life.packets as f64 * 6.0,
        );
        at += life.used as f64;
    }
    svg.push_str("</svg>\n");
    svg
}
