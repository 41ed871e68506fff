//! A node that receives: the outside sends each packet until it is answered, and the node handles
//! each once. The answer leaves after the commit of the step that has handled the packet.

use super::radio::{FIRST, Radio, Settings, TABLE};
use super::{ANSWERED_EARLY, committed, options, parts};
use crate::abi::bench::{ANSWERED, SEND};
use crate::{Mapped, Scene, check, ok, progress};
use nv_device::nvmem::Persist;
use nv_device::{Devices, Members, Set, Staged, StagedDevice, open};
use nv_replay::{Message, NotNow, Outlet, Port, Replay};

struct Node<'d, 'm, M: Mapped> {
    radio: StagedDevice<'m, Radio<'d>, M>,
    scene: &'d Scene<'d, M>,
}

impl<M: Mapped> Devices for Node<'_, '_, M> {
    fn list(&self) -> impl Members {
        &self.radio
    }
}

/// The environment: answers leave by the radio.
struct Env<'n, 'd, 'm, M: Mapped>(&'n Set<Node<'d, 'm, M>>);

impl<M: Mapped> Outlet for Env<'_, '_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let sent = self.0.radio.with(|radio, _| radio.0.send(m.bytes));
        sent.map_err(|_| NotNow)
    }
}

/// The number of a packet that was handled.
static ANSWER: Port<u16> = Port::new(1);

/// What the program keeps of the packets that it has handled.
#[derive(Persist)]
#[repr(C)]
struct Handled {
    last: u16,
    sum: u16,
}

/// Turns that listen, and handle what arrives.
pub(super) fn receive<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, packets, region) = (scene.argument(), scene.rounds(3), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let (settings,) = ok!(
        scene,
        open::<(Staged<Settings>,), M>(contexts, committed, (FIRST,))
    );
    let node = Set::new(Node {
        radio: StagedDevice::new(settings, (bench, false)),
        scene,
    });
    let mut rt = ok!(
        scene,
        Replay::<Handled, M, _>::open_with(rest, options(TABLE), Env(&node), |_| {
            Ok(Handled { last: 0, sum: 0 })
        })
        .map_err(|r| r.error)
    );
    let received = rt.each_step_with(&node, 0..packets.into(), bug, |step, handled, _, bug| {
        let node = step.token();
        let (scene, bench) = (node.scene, node.scene.bench());
        let h = handled.get(step);
        let (last, sum) = (h.last, h.sum);
        // What is answered is handled, and what was handled before is answered.
        check!(scene, bench.read(ANSWERED) == last);
        progress!(scene, last);
        node.radio.with(|radio, _| radio.0.listen())?;
        bench.write(SEND, 1);
        let packet = node.radio.with(|radio, _| radio.0.receive::<2>())?;
        // The outside sends whenever the node listens.
        check!(scene, packet == Some((last + 1).to_le_bytes()));
        if bug == ANSWERED_EARLY {
            let answer = (last + 1).to_le_bytes();
            node.radio.with(|radio, _| radio.0.send(&answer))?;
        } else {
            step.send(&ANSWER, last + 1)?;
        }
        let mut h = handled.fields(step);
        *h.last.get_mut()? = last + 1;
        *h.sum.get_mut()? = sum + last + 1;
        Ok(())
    });
    ok!(scene, received);
    let (last, sum) = ok!(
        scene,
        rt.step((), |step, handled, ()| {
            let h = handled.get(step);
            Ok((h.last, h.sum))
        })
    );
    progress!(scene, last);
    check!(scene, last == packets && bench.read(ANSWERED) == last);
    check!(scene, sum == packets * (packets + 1) / 2);
}
