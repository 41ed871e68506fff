//! Values of `postcard` and `heapless` in a heap: as objects, as elements, in blobs; over cold
//! boots and power cuts.

use crate::support::lives::{Promised, ROUNDS, Save};
use nvmem::{List, Medium, Persist, Postcard, Text};
use powerfail::{Simulated, SpiFram, World, explore};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use vnv_heap::collections::{Blob, Fifo, Map};
use vnv_heap::{Config, Error, Heap, HeapOf, JustInTime, OpenError, Own, Promise, Snapshot, brand};

/// Without a stable layout.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Event {
    Measured(f32, Option<u64>),
    Pressed { button: u8 },
}

fn event(n: u32) -> Event {
    match n % 2 {
        0 => Event::Measured(n as f32, Some(u64::from(n) << 40)),
        _ => Event::Pressed { button: n as u8 },
    }
}

fn text(n: u32) -> heapless::String<12> {
    let mut text = heapless::String::new();
    text.push_str(&"round "[..n as usize * 2]).unwrap();
    text
}

fn samples(n: u32) -> heapless::Vec<u16, 4> {
    (0..n as u16).collect()
}

type Encoded = Postcard<Event, 16>;

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    n: u32,
    last: Option<Own<'h, Encoded>>,
    any: Blob<'h>,
    names: Fifo<'h, Text<12>>,
    series: Map<'h, u8, List<u16, 4>, 2>,
}

const CONFIG: Config = Config {
    objects: 24,
    max_pins: 4,
    ..Config::DEFAULT
};

fn root<'h, H: HeapOf<'h>>(heap: &H) -> Result<Root<'h>, Error<H::Error>> {
    Ok(Root {
        n: 0,
        last: None,
        any: Blob::alloc(heap, &[])?,
        names: Fifo::alloc(heap, 2)?,
        series: Map::new(),
    })
}

fn round<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Root<'h>, S, P>) {
    let mut root = heap.root_mut().unwrap();
    root.n += 1;
    let n = root.n;
    // An object of bounded size, which is overwritten; and bytes of any length.
    let encoded = Postcard::new(&event(n)).unwrap();
    match &root.last {
        Some(last) => heap.write(last, encoded).unwrap(),
        None => root.last = Some(heap.alloc(encoded).unwrap()),
    }
    let (text, mut buf) = (text(n), [0; 32]);
    let bytes = postcard::to_slice(&(event(n + 1), text.as_str()), &mut buf).unwrap();
    root.any.replace(heap, bytes).unwrap();
    if n > 1 {
        root.names.pop(heap).unwrap().unwrap();
    }
    root.names.push(heap, Text::from(&text)).unwrap();
    root.series
        .insert(heap, n as u8 & 1, List::from(samples(n)))
        .unwrap();
}

fn look<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Root<'h>, S, P>) -> u32 {
    let root = heap.root().unwrap();
    let n = root.n;
    assert_eq!((root.last.is_some(), root.any.is_empty()), (n > 0, n == 0));
    if let Some(last) = &root.last {
        heap.with(last, |e| assert_eq!(e.get().unwrap(), event(n)))
            .unwrap();
        let text = text(n);
        let right = |b: &[u8]| {
            let decoded: (Event, &str) = postcard::from_bytes(b).unwrap();
            assert_eq!(decoded, (event(n + 1), text.as_str()));
        };
        root.any.with(heap, right).unwrap();
        let name = root.names.get(heap, 0).unwrap().unwrap();
        assert_eq!(heapless::String::<12>::from(name), text);
        let series = root.series.get(heap, &(n as u8 & 1)).unwrap().unwrap();
        assert_eq!(heapless::Vec::<u16, 4>::from(series), samples(n));
    }
    n
}

cut!(Root, root, CONFIG, round, look);
