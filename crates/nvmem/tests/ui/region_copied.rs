use nvmem::{InOrder32, Region};

fn two(r: &Region<'static, InOrder32>) -> Region<'static, InOrder32> {
    r.clone()
}

fn from_two_threads<T: Sync>(_: &T) {}

fn shared(r: &Region<'_, InOrder32>) {
    from_two_threads(r);
}

fn main() {}
