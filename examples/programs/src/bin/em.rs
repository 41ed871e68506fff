//! The program `em` on a host, through some hundred power cuts.

fn main() {
    let p = example_programs::program!(em);
    let s = p.cut(200);
    println!("{}: {:?} in each of {} lives, {} power cuts", p.name, p.reference, s.boots, s.cuts);
}
