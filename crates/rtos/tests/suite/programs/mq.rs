// Four threads and two queues: a producer sends samples to two workers. One keeps the average of
// the last ten, the other one their maximum. A fourth thread reports what they found.

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: SEQ }
    objects {
        AVERAGE: Queue<[u32; 2], 8>;
        MAXIMUM: Queue<[u32; 2], 8>;
        FOUND: Queue<[u32; 2], 2>;
    }
    threads {
        producer(u32 = 0): 1;
        average([u32; 11] = [0; 11]): 2;
        maximum([u32; 11] = [0; 11]): 2;
        report([u32; 2] = [0; 2]): 3;
    }
}

/// The sample of a message, which the compiler does not know.
fn sample(i: u32) -> u32 {
    std::hint::black_box(i).wrapping_mul(2_654_435_761) >> 20
}

/// What both workers find, computed plainly.
fn reference() -> [u32; 2] {
    let mut all: Vec<u32> = (0..MESSAGES).map(sample).collect();
    let last = all.split_off(all.len().saturating_sub(10));
    [
        last.iter().sum::<u32>() / last.len() as u32,
        last.iter().copied().max().unwrap(),
    ]
}

fn producer(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, count, i, ()| {
        *count.get_mut(sys)? += 1;
        AVERAGE.send(sys, [i, sample(i)])?;
        MAXIMUM.send(sys, [i, sample(i)])
    })
}

fn average(th: &mut Thread<Plan, [u32; 11]>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, window, turn, ()| {
        let [i, value] = AVERAGE.receive(sys)?;
        assert_eq!(i, turn, "first in, first out");
        let window = window.get_mut(sys)?;
        window[i as usize % 10] = value;
        let n = MESSAGES.min(10).min(i + 1);
        window[10] = window[..10].iter().sum::<u32>() / n;
        Ok(())
    })?;
    th.step((), |sys, window, ()| FOUND.send(sys, [0, window.get(sys)[10]]))?;
    Ok(())
}

fn maximum(th: &mut Thread<Plan, [u32; 11]>) -> Result<(), Error> {
    th.each_step(0..MESSAGES, (), |sys, window, turn, ()| {
        let [i, value] = MAXIMUM.receive(sys)?;
        assert_eq!(i, turn, "first in, first out");
        let window = window.get_mut(sys)?;
        window[i as usize % 10] = value;
        window[10] = window[..10].iter().copied().max().unwrap_or(0);
        Ok(())
    })?;
    th.step((), |sys, window, ()| FOUND.send(sys, [1, window.get(sys)[10]]))?;
    Ok(())
}

fn report(th: &mut Thread<Plan, [u32; 2]>, w: &World<'_, Seen>) -> Result<(), Error> {
    th.each_step(0..2, (), |sys, found, _, ()| {
        let [who, value] = FOUND.receive(sys)?;
        found.get_mut(sys)?[who as usize] = value;
        Ok(())
    })?;
    let found = th.step((), |sys, found, ()| Ok(*found.get(sys)))?;
    assert_eq!(found, reference());
    let [average, maximum] = found;
    result(w, 3, 0, average);
    result(w, 3, 1, maximum);
    Ok(())
}

pub fn life(nv: Region<'_, Fram>, w: &World<'_, Seen>) {
    run!(nv, w: producer, average, maximum, |th| report(th, w));
}
