//! The shortest program that fails, as a test that can be pasted.

use super::program::*;

/// Removes what is not needed for a failure, and returns the last failure.
pub fn shrink(
    mut program: Program,
    fails: impl Fn(&Program) -> Option<String>,
) -> (Program, String) {
    let mut why = fails(&program).expect("it fails again");
    let mut again = true;
    while std::mem::take(&mut again) {
        for t in 0..THREADS {
            let mut at = 0;
            while at < program.threads[t].len() {
                let smaller = smaller(&program, t, at).into_iter().filter(locks_in_order);
                match smaller
                    .map(|p| (fails(&p), p))
                    .find_map(|(why, p)| Some((why?, p)))
                {
                    Some((reason, p)) => (why, program, again) = (reason, p, true),
                    None => at += 1,
                }
            }
        }
    }
    (program, why)
}

/// Programs that lack something of an act.
fn smaller(program: &Program, t: usize, at: usize) -> Vec<Program> {
    let mut all = Vec::new();
    let mut add = |f: &mut dyn FnMut(&mut Vec<Act>)| {
        let mut one = program.clone();
        f(&mut one.threads[t]);
        all.push(one);
    };
    add(&mut |acts| drop(acts.remove(at)));
    match &program.threads[t][at] {
        Act::Step(ops, fails) => {
            for i in 0..ops.len() {
                let (mut ops, fails) = (ops.clone(), *fails);
                ops.remove(i);
                add(&mut |acts| acts[at] = Act::Step(ops.clone(), fails));
            }
        }
        Act::Beside(ops, end) => {
            for i in 0..ops.len() {
                let (mut ops, end) = (ops.clone(), *end);
                ops.remove(i);
                add(&mut |acts| acts[at] = Act::Beside(ops.clone(), end));
            }
        }
        Act::Loop(n, ops) => {
            for n in [n / 2, n - 1].into_iter().filter(|n| *n > 0) {
                add(&mut |acts| acts[at] = Act::Loop(n, ops.clone()));
            }
            for i in 0..ops.len() {
                let mut ops = ops.clone();
                ops.remove(i);
                add(&mut |acts| acts[at] = Act::Loop(*n, ops.clone()));
            }
        }
        Act::Each(n, lock, steps) => {
            for n in [n / 2, n - 1].into_iter().filter(|n| *n > 0) {
                add(&mut |acts| acts[at] = Act::Each(n, *lock, steps.clone()));
            }
            add(&mut |acts| acts[at] = Act::Each(*n, None, steps.clone()));
        }
        _ => {}
    }
    // A lock without a lock is the same one.
    all.retain(|p| p != program);
    all
}

/// Whether no thread locks what may be waited for by a thread that has what it waits for.
fn locks_in_order(p: &Program) -> bool {
    p.threads.iter().all(|acts| {
        let mut held = Vec::new();
        acts.iter().all(|a| match a {
            Act::Lock(l) | Act::Try(l, _) => {
                let in_order = held.contains(l) || held.iter().all(|h| h < l);
                held.push(*l);
                in_order
            }
            Act::Each(_, Some(l), _) => held.contains(l) || held.iter().all(|h| h < l),
            Act::Add(at) => usize::from(*at) < held.len(),
            Act::Unlock(at) => {
                let is_held = usize::from(*at) < held.len();
                if is_held {
                    held.remove(usize::from(*at));
                }
                is_held
            }
            _ => true,
        })
    })
}

/// The program as a test.
pub fn as_test(machine: u64, mode: &str, program: &Program) -> String {
    let threads = program.threads.iter().enumerate();
    let threads = threads
        .filter(|(_, acts)| !acts.is_empty())
        .map(|(t, acts)| {
            let acts = format!("{acts:?}").replace('[', "vec![");
            format!("        ({t}, {acts}),\n")
        });
    format!(
        "#[test]\nfn found() {{\n    use super::program::{{Act::*, End::*, Kind::*, Op::*}};\n    \
         super::again({machine}, super::Mode::{mode}, [\n{}    ]);\n}}\n",
        threads.collect::<String>()
    )
}
