//! A node that measures and sends: some readings of a sensor, then a packet with their mean.

use super::radio::{FIRST, Radio, Settings, TABLE};
use super::sensor::{Range, Sensor};
use super::{CONFIGURED_ONCE, SENT_EARLY, committed, options, parts};
use crate::abi::bench::{ARRIVED, CHANNEL, REFERENCE_MV, SENSOR, TUNED};
use crate::{Mapped, Scene, check, ok, progress};
use nv_device::nvmem::Persist;
use nv_device::{Devices, Members, Set, Staged, StagedDevice, open};
use nv_replay::{Message, NotNow, Outlet, Port, Replay};

/// What the program keeps.
#[derive(Persist)]
#[repr(C)]
struct Station {
    sum: u16,
    readings: u16,
    packets: u16,
    spare: u16,
}

struct Node<'d, 'm, M: Mapped> {
    sensor: StagedDevice<'m, Sensor<'d>, M>,
    radio: StagedDevice<'m, Radio<'d>, M>,
    scene: &'d Scene<'d, M>,
}

impl<M: Mapped> Devices for Node<'_, '_, M> {
    fn list(&self) -> impl Members {
        (&self.sensor, &self.radio)
    }
}

/// The environment: messages leave by the radio.
struct Env<'n, 'd, 'm, M: Mapped>(&'n Set<Node<'d, 'm, M>>);

impl<M: Mapped> Outlet for Env<'_, '_, '_, M> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        let scene = self.0.scene;
        let sent = self.0.radio.with(|radio, s| {
            // What is committed, and only that.
            let tuned = u16::from_le_bytes([s.channel, s.power]);
            check!(scene, scene.bench().read(TUNED) == tuned);
            radio.0.send(m.bytes)
        });
        sent.map_err(|_| NotNow)
    }
}

/// A packet's number, and the mean.
static PACKET: Port<[u16; 2]> = Port::new(1);

/// Readings for a packet.
const READINGS: u16 = 3;

fn bytes(packet: [u16; 2]) -> [u8; 4] {
    let [[a, b], [c, d]] = packet.map(u16::to_le_bytes);
    [a, b, c, d]
}

/// Turns that read the sensor, and after some of them one that sends.
pub(super) fn node<M: Mapped>(scene: &mut Scene<'_, M>) {
    let (bug, packets, region) = (scene.argument(), scene.rounds(2), scene.region());
    let (scene, bench) = (&*scene, scene.bench());
    check!(scene, bench.read(TUNED) & 0xFF == 0);
    let (contexts, rest) = parts(scene, region);
    let committed = committed(scene, &rest, &TABLE);
    let range = Range {
        reference: REFERENCE_MV,
        input: SENSOR,
    };
    let (range, settings) = ok!(
        scene,
        open::<(Staged<Range>, Staged<Settings>), M>(contexts, committed, (range, FIRST))
    );
    let configured = bug == CONFIGURED_ONCE && scene.read_cell(0) > 0;
    let node = Set::new(Node {
        sensor: StagedDevice::new(range, bench),
        radio: StagedDevice::new(settings, (bench, configured)),
        scene,
    });
    let mut rt = ok!(
        scene,
        Replay::<Station, M, _>::open_with(rest, options(TABLE), Env(&node), |_| Ok(Station {
            sum: 0,
            readings: 0,
            packets: 0,
            spare: 0,
        }))
        .map_err(|r| r.error)
    );
    let turns = 0..u32::from(packets) * u32::from(READINGS + 1);
    let sent = rt.each_step_with(&node, turns, bug, |step, station, _, bug| {
        let node = step.token();
        let s = station.get(step);
        let (sum, readings, packets) = (s.sum, s.readings, s.packets);
        let arrived = node.scene.bench().read(ARRIVED);
        check!(
            node.scene,
            arrived == packets || bug == SENT_EARLY && arrived == packets + 1
        );
        // Its power is what was committed with the packets.
        let settings = node.radio.context();
        check!(
            node.scene,
            settings
                .is_some_and(|s| s.channel == CHANNEL && s.power == FIRST.power + packets as u8)
        );
        progress!(node.scene, packets * (READINGS + 1) + readings);
        let mut s = station.fields(step);
        if readings < READINGS {
            let reading = node.sensor.with(|sensor, _| sensor.read())?;
            *s.sum.get_mut()? = sum + reading;
            *s.readings.get_mut()? = readings + 1;
            return Ok(());
        }
        let packet = [packets + 1, sum / READINGS];
        if bug == SENT_EARLY {
            let fresh = node.sensor.with(|sensor, _| sensor.read())?;
            node.radio
                .with(|radio, _| radio.0.send(&bytes([packet[0], fresh])))?;
        } else {
            step.send(&PACKET, packet)?;
        }
        *s.sum.get_mut()? = 0;
        *s.readings.get_mut()? = 0;
        *s.packets.get_mut()? = packet[0];
        Ok(node.radio.change(step, |s| s.power += 1)?)
    });
    ok!(scene, sent);
    let n = ok!(
        scene,
        rt.step((), |step, station, ()| Ok(station.get(step).packets))
    );
    progress!(scene, n * (READINGS + 1));
    check!(scene, n == packets && bench.read(ARRIVED) == packets);
}
