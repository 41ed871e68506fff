//! All builds of a program find what the plain reference finds.

use example_programs::program;

macro_rules! programs {
    ($($program:ident)+) => {$(
        #[test]
        fn $program() {
            let p = program!($program);
            let s = p.cut(40);
            println!("{}: {s}", p.name);
            assert!(s.cuts >= 40, "{s}");
        }
    )+};
}

programs! { em mq }
