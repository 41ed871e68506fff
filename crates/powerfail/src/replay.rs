//! Follows given cuts: those of a failure, to describe it, and those of a line, to replay it.
//!
//! ```text
//!  name@model@image@cuts@hash@features
//!  cuts:  ~12/slot1.seq#2=02^5!1/slot0.seq#1=h30866dcc^4{0x10=ff}
//!         |   |             |  |                        |
//!         |   event token   |  read policy (0 to 5)     values of units that were open
//!         point of the interrupt     torn in way 5
//!
//!  with threads:  ~6>1~9+/slot1.seq#2=02/~3*0
//!                 |        |             the same for the run after the last cut
//!                 |        the cut of that run
//!                 schedule of a run: at point 6 thread 1 runs, at point 9 the clock moves
//! ```
//!
//! `hash` covers all runs up to the last cut. If it differs, the program has changed, but the cuts
//! were still found.

use crate::build;
use crate::chain::{Cut, DIFFER, torn_states};
use crate::engine::{self, Engine, Run, trace_hash};
use crate::hash::Wide;
use crate::names::{number, plain};
use crate::schedule::Schedule;
use crate::schedules::Start;
use crate::search::carry_over;
use crate::torn::{Policy, UnstableWords};
use crate::trace::{Event, Trace};
use crate::walk::{Walk, part_of};

/// Where to cut: a known cut, or the text of a line.
pub(crate) enum CutSource<'l> {
    Known(&'l Cut),
    Line(&'l str, Schedule),
}

/// One cut, as text.
pub(crate) struct Step {
    /// Its token in a line.
    pub(crate) token: String,
    /// The preemptions of the run that it cuts, as lines of a report.
    pub(crate) preempted: Vec<String>,
    /// Their token, if there are any.
    pub(crate) schedule: Schedule,
    /// Its lines in a report.
    pub(crate) text: Vec<String>,
}

pub(crate) struct Replayed {
    pub(crate) steps: Vec<Step>,
    pub(crate) end: Result<(), String>,
    /// The hash of all runs.
    pub(crate) hash: u32,
    /// The interrupt's line in a report.
    pub(crate) interrupt: Option<String>,
    /// The schedule of the last run, and its preemptions as lines of a report.
    pub(crate) schedule: Schedule,
    pub(crate) preempted: Vec<String>,
}

// INVARIANT "A line never lies": a failure line replays the same executions, reports that they
// differ, or is refused.
// Noticed by: `a_line_survives_small_edits_or_is_refused` in tests/suite/campaigns.rs; every bug of
// tests/suite/planted.rs replays its line.

/// A parsed failure line.
pub(crate) struct Line<'l> {
    /// The point of the interrupt: `~point` before the cuts.
    pub(crate) preempt: Option<u64>,
    pub(crate) name: &'l str,
    pub(crate) model: &'l str,
    pub(crate) image: &'l str,
    /// The cuts, each with the schedule of the run that it cuts.
    pub(crate) cuts: Vec<(&'l str, Schedule)>,
    /// The schedule of the run after the last cut.
    pub(crate) schedule: Schedule,
    pub(crate) hash: u32,
    /// The features of the build that printed it, if not the default ones.
    pub(crate) features: &'l str,
}

impl<'l> Line<'l> {
    pub(crate) fn parse(s: &'l str) -> Option<Self> {
        let parts: Vec<&str> = s.trim().split('@').collect();
        let ([name, model, image, cuts, hash], features) = match parts[..] {
            [a, b, c, d, e] => ([a, b, c, d, e], ""),
            [a, b, c, d, e, features] => ([a, b, c, d, e], features),
            _ => return None,
        };
        let mut cuts: Vec<&str> = cuts.split('/').filter(|c| !c.is_empty()).collect();
        let point = cuts.first().and_then(|c| c.strip_prefix('~')?.parse().ok());
        if point.is_some() {
            cuts.remove(0);
        }
        let preempt = point;
        let mut schedule = Schedule::default();
        let mut scheduled = Vec::new();
        for c in cuts {
            match c.starts_with('~') {
                true => schedule = Schedule::parse(c)?,
                false => scheduled.push((c, std::mem::take(&mut schedule))),
            }
        }
        let cuts = scheduled;
        Some(Line {
            preempt,
            name,
            model,
            image,
            cuts,
            schedule,
            hash: u32::from_str_radix(hash, 16).ok()?,
            features,
        })
    }
}

/// `point^way{place=value,…}!policy`, all but the first optional.
struct CutText<'l> {
    point: &'l str,
    torn: Option<u8>,
    choices: Vec<(&'l str, u32)>,
    policy: Policy,
}

impl<'l> CutText<'l> {
    fn parse(s: &'l str) -> Option<Self> {
        let (s, policy) = match s.split_once('!') {
            Some((s, p)) => (s, p.parse().ok().filter(|p| *p < Policy::ALL)?),
            None => (s, 0),
        };
        let (s, choices) = match s.split_once('{') {
            Some((s, c)) => {
                let each = c.strip_suffix('}')?.split(',').map(|c| {
                    let (place, v) = c.split_once('=')?;
                    Some((place, u32::from_str_radix(v, 16).ok()?))
                });
                (s, each.collect::<Option<Vec<_>>>()?)
            }
            None => (s, Vec::new()),
        };
        let (point, torn) = match s.split_once('^') {
            Some((p, w)) => (p, Some(w.parse().ok()?)),
            None => (s, None),
        };
        Some(CutText {
            point,
            torn,
            choices,
            policy: Policy(policy),
        })
    }
}

/// Events as one line, each with its thread where that is another one than before.
fn by_thread(events: &[(Option<String>, String)]) -> String {
    let mut before = &None;
    let with = events.iter().map(|(thread, what)| {
        let text = match thread {
            Some(t) if thread != before => format!("{t}: {what}"),
            _ => what.clone(),
        };
        before = thread;
        text
    });
    with.collect::<Vec<_>>().join("   ")
}

impl Engine<'_> {
    pub(crate) fn model(&self) -> String {
        engine::names(&self.parts)
    }

    pub(crate) fn image_print(&self) -> String {
        format!("{:08x}", Wide::of(&self.root[..]) as u32)
    }

    pub(crate) fn line(&self, replayed: &Replayed) -> String {
        let point = self.setup.preempt.map(|p| format!("~{p}"));
        let mut cuts: Vec<String> = point.into_iter().collect();
        let schedule = |s: &Schedule| (!s.is_default()).then(|| s.to_string());
        for s in &replayed.steps {
            cuts.extend(schedule(&s.schedule));
            cuts.push(s.token.clone());
        }
        cuts.extend(schedule(&replayed.schedule));
        format!(
            "{}@{}@{}@{}@{:08x}{}",
            plain(&self.setup.name),
            self.model(),
            self.image_print(),
            cuts.join("/"),
            replayed.hash,
            build::suffix()
        )
    }

    /// Follows the cuts, and boots the state that the last one left with a schedule.
    ///
    /// **Errors**: the reason why a cut does not exist in the program any more.
    pub(crate) fn follow(
        &mut self,
        sources: &[CutSource<'_>],
        to_the_end: Option<&Schedule>,
    ) -> Result<Replayed, String> {
        let setup = self.setup;
        let mut world = setup.world.clone();
        let mut free = Vec::new();
        let mut unstable = UnstableWords::default();
        let mut policy = Policy::default();
        let mut steps = Vec::new();
        let mut hash = Wide::new();
        let mut interrupt = None;
        for (level, source) in sources.iter().enumerate() {
            let schedule = match source {
                CutSource::Known(c) => &c.schedule,
                CutSource::Line(_, s) => s,
            };
            let (run, trace, preempted) = {
                let start = Start {
                    world: &world,
                    record_reads: !free.is_empty(),
                    unstable: &unstable,
                    policy,
                };
                self.follow_run(&start, schedule)?
            };
            interrupt = interrupt.or_else(|| self.say_interrupt(&trace));
            if let Err(what) = run.end {
                let end = Err(format!("after only {level} of the cuts: {what}"));
                return Ok(Replayed {
                    steps,
                    end,
                    hash: 0,
                    interrupt,
                    schedule: schedule.clone(),
                    preempted,
                });
            }
            hash.word(trace_hash(&trace, &run.past) as u64);
            let text;
            let cut = match *source {
                CutSource::Known(c) => c,
                CutSource::Line(l, _) => {
                    let t = CutText::parse(l).ok_or_else(|| format!("`{l}` is not a cut"))?;
                    let event = if t.point == "end" {
                        trace.events.len()
                    } else {
                        self.tokens(&trace)
                            .position(|k| k == t.point)
                            .ok_or_else(|| format!("the program has no `{}` any more", t.point))?
                    };
                    let mut choices = Vec::new();
                    let start = self.arena().bytes().to_vec();
                    let mut preview = Walk::new(free.clone(), unstable.clone());
                    for i in 0..event {
                        preview.step(&mut self.rec.0.get_mut().arena, &self.parts, &trace, i);
                    }
                    for (place, v) in &t.choices {
                        let p = preview.pend.iter().find(|p| self.location(p.at) == *place);
                        let p = p.ok_or_else(|| format!("`{place}` is not open there any more"))?;
                        if !p.vals.contains(v) {
                            return Err(format!("`{place}` cannot be {v:x} there any more"));
                        }
                        choices.push((p.at, *v));
                    }
                    if let Some(w) = t.torn
                        && usize::from(w) >= torn_states(&trace, event).len()
                    {
                        return Err(format!("`{l}` cannot be torn in that way any more"));
                    }
                    text = Cut {
                        event: event as u32,
                        torn: t.torn,
                        choices,
                        policy: t.policy,
                        schedule: schedule.clone(),
                    };
                    self.arena().put(0, &start);
                    &text
                }
            };
            let place = {
                let start = Start {
                    world: &world,
                    record_reads: !free.is_empty(),
                    unstable: &unstable,
                    policy,
                };
                self.place_of(cut.event as usize, &start, schedule)?
            };
            let mut walk = Walk::new(std::mem::take(&mut free), unstable.clone());
            let mut last = Vec::new();
            for i in 0..cut.event as usize {
                let Some(e) = trace.events.get(i) else { break };
                walk.step(&mut self.rec.0.get_mut().arena, &self.parts, &trace, i);
                match *e {
                    Event::World(n) => {
                        world = run.past[n as usize].0.clone();
                        last.push((self.rec.3.thread_of(i), format!("world = {world:?}")));
                    }
                    Event::Store { .. }
                    | Event::Touched { .. }
                    | Event::Program { .. }
                    | Event::Fence { .. } => {
                        let thread = self.rec.3.thread_of(i);
                        last.extend(self.say(&trace, e).map(|what| (thread, what)));
                    }
                    _ => {}
                }
            }
            let here = trace.events.get(cut.event as usize);
            let mut token = match here {
                Some(_) => self
                    .tokens(&trace)
                    .nth(cut.event as usize)
                    .unwrap_or_default(),
                None => "end".into(),
            };
            let say = here.and_then(|e| self.say(&trace, e));
            let say = say.unwrap_or_else(|| "the end of the program".into());
            let mut text = Vec::new();
            let mut fits = walk.unstable.clone();
            if let Some(k) = cut.torn {
                let w = &torn_states(&trace, cut.event as usize)[usize::from(k)];
                token += &format!("^{k}");
                let unstable = if w.alt.is_some() { ", unstable" } else { "" };
                text.push(format!("while {say}   torn: {}{unstable}", w.name));
                w.apply_to(&mut fits);
                self.patch(&w.patches);
            } else {
                text.push(format!("before {say}"));
            }
            for (i, line) in place.into_iter().enumerate() {
                let from = if i == 0 { "in  " } else { "    " };
                text.push(format!("{from}   {line}"));
            }
            unstable = fits;
            if !last.is_empty() {
                let from = last.len().saturating_sub(5);
                let more = if from > 0 { "…   " } else { "" };
                text.push(format!(
                    "last   {more}{}   <- here",
                    by_thread(&last[from..])
                ));
            }
            if !cut.choices.is_empty() {
                let mut names = Vec::new();
                let mut values = Vec::new();
                for &(at, v) in &cut.choices {
                    let unit = part_of(&self.parts, at).unit;
                    self.arena().put_unit(at, unit, v);
                    names.push(format!("{}={v:x}", self.location(at)));
                    values.push(format!(
                        "{} = {}",
                        self.location(at),
                        number(&v.to_le_bytes())
                    ));
                }
                token += &format!("{{{}}}", names.join(","));
                text.push(format!(
                    "open units that persisted   {}",
                    values.join("   ")
                ));
            }
            policy = cut.policy;
            if policy != Policy::default() {
                token += &format!("!{}", policy.0);
                text.push(format!(
                    "in the next boot, unstable words read {}",
                    policy.name()
                ));
            }
            let rest: Vec<_> = walk
                .pend
                .iter()
                .filter(|p| !cut.choices.iter().any(|(at, _)| *at == p.at))
                .cloned()
                .collect();
            free = carry_over(&rest);
            steps.push(Step {
                token,
                preempted,
                schedule: cut.schedule.clone(),
                text,
            });
        }
        let Some(schedule) = to_the_end else {
            let (end, hash) = (Ok(()), hash.wide() as u32);
            return Ok(Replayed {
                steps,
                end,
                hash,
                interrupt,
                schedule: Schedule::default(),
                preempted: Vec::new(),
            });
        };
        let start = Start {
            world: &world,
            record_reads: !free.is_empty(),
            unstable: &unstable,
            policy,
        };
        let (run, trace, preempted) = self.follow_run(&start, schedule)?;
        interrupt = interrupt.or_else(|| self.say_interrupt(&trace));
        let first = trace_hash(&trace, &run.past);
        let mut end = run.end;
        if end.is_ok() {
            let (again, trace, _) = self.follow_run(&start, schedule)?;
            if trace_hash(&trace, &again.past) != first {
                end = Err(DIFFER.into());
            }
        }
        Ok(Replayed {
            steps,
            end,
            hash: hash.wide() as u32,
            interrupt,
            schedule: schedule.clone(),
            preempted,
        })
    }

    /// The lines of the program that lead to an event of a run: of one more run.
    fn place_of(
        &mut self,
        event: usize,
        start: &Start<'_>,
        schedule: &Schedule,
    ) -> Result<Vec<String>, String> {
        self.rec.0.get_mut().wanted = Some(event);
        let run = self.follow_run(start, schedule);
        let record = self.rec.0.get_mut();
        record.wanted = None;
        let place = std::mem::take(&mut record.place);
        run.map(|_| place)
    }

    /// One run of a replay, its record, and its preemptions as lines of a report.
    ///
    /// **Errors**: a preemption of the schedule does not exist any more.
    fn follow_run(
        &mut self,
        start: &Start<'_>,
        schedule: &Schedule,
    ) -> Result<(Run, Trace, Vec<String>), String> {
        self.schedule = schedule.clone();
        self.status.under(schedule);
        let run = self.boot(
            start.world,
            start.record_reads,
            start.unstable,
            start.policy,
        );
        self.schedule = Schedule::default();
        let trace = self.take_trace();
        if let Some(why) = &run.missed {
            return Err(why.clone());
        }
        let preempted = self.rec.3.preempted().into_iter().map(|p| {
            let before = trace.events[..p.events].iter().enumerate().rev();
            let last = before
                .filter_map(|(i, e)| Some((self.rec.3.thread_of(i), self.say(&trace, e)?)))
                .next();
            let after = match last {
                Some((Some(thread), what)) => format!("after {what} of {thread}"),
                Some((None, what)) => format!("after {what}"),
                None => "at the beginning".into(),
            };
            format!("preempted  {}   {after}", p.text)
        });
        let preempted = preempted.collect();
        Ok((run, trace, preempted))
    }

    /// Where the interrupt came in the boot of this record, if it came inside the body.
    fn say_interrupt(&self, trace: &Trace) -> Option<String> {
        let point = self.setup.preempt?;
        let began = self.rec.2.began()?;
        if self.rec.2.passed() <= point {
            return None;
        }
        let before = trace.events.get(..began)?.iter().rev();
        let last = before.filter_map(|e| self.say(trace, e)).next();
        let last = last.unwrap_or_else(|| "the beginning".into());
        Some(format!("at point {point}, after {last}"))
    }
}
