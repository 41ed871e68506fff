//! What the firmware, the rig and the emulators agree on: where memory lies on each machine, what
//! the mailbox holds, and which registers the bench has.
//!
//! The *mailbox* is where the firmware and the host exchange words: a block of 16-bit cells outside
//! of the power domain. It survives power cuts and is not part of the non-volatile memory. Each
//! access to a cell is one volatile access on every machine.
//!
//! ```text
//!   cell  0 .. 1   2 .. 6                            7       8 .. 26            27 .. 30   31
//!         input    status, failure, section, boots,  timer   the scenario's     output     input
//!                  ticks (output)                    input   own (in and out)
//! ```

/// Where a machine's memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The name in reports, keys and images.
    pub name: &'static str,
    /// The target that its images are built for.
    pub target: &'static str,
    /// Start of the code; on MSP430 the vectors lie at the end of it.
    pub code: u32,
    /// Bytes for the code, vectors included.
    pub code_len: u32,
    /// Start of the volatile RAM.
    pub ram: u32,
    /// Bytes of volatile RAM; the stack begins at its end.
    pub ram_len: u32,
    /// Start of the non-volatile memory, which start-up does not touch.
    pub nvm: u32,
    /// Bytes of non-volatile memory.
    pub nvm_len: u32,
    /// Start of the mailbox.
    pub mailbox: u32,
    /// Start of the registers of [`bench`].
    pub bench: u32,
    /// Bytes of an atomic unit of the non-volatile memory.
    pub unit: u32,
}

/// Bytes of non-volatile memory on every machine.
pub const NVM_BYTES: usize = 4096;

/// QEMU's mps2-an386, a Cortex-M4. Start-up writes to the coprocessor access register at
/// 0xE000_ED88; the timer, if the mailbox asks for it, to SysTick at 0xE000_E010. The program ends
/// with a semihosting exit (BKPT 0xAB).
pub const ARM: Machine = Machine {
    name: "arm",
    target: "thumbv7em-none-eabihf",
    code: 0x0000_0000,
    code_len: 0x4_0000,
    ram: 0x2000_0000,
    ram_len: 0x1_0000,
    nvm: 0x2100_0000,
    nvm_len: NVM_BYTES as u32,
    mailbox: 0x2101_0000,
    bench: 0x4003_0000,
    unit: 4,
};

/// A Cortex-M0 with the memory of [`ARM`]. There are images of one group only for it; so it is not
/// one of [`MACHINES`].
pub const ARMV6M: Machine = Machine {
    name: "armv6m",
    target: "thumbv6m-none-eabi",
    ..ARM
};

/// QEMU's virt as RV32IMC. The timer, if the mailbox asks for it, is the CLINT's. The program ends
/// with a store of 0x5555 to 0x0010_0000.
pub const RISCV: Machine = Machine {
    name: "riscv",
    target: "riscv32imc-unknown-none-elf",
    code: 0x8000_0000,
    code_len: 0x8_0000,
    ram: 0x8008_0000,
    ram_len: 0x1_0000,
    nvm: 0x8010_0000,
    nvm_len: NVM_BYTES as u32,
    mailbox: 0x8011_0000,
    bench: 0x1000_2000,
    unit: 4,
};

/// MSP430FR5994, its lower 64 KiB. Start-up stops the watchdog at 0x015C. If the mailbox asks for
/// the timer, interrupts are enabled and come through vector 0xFFEA, Timer0_A0; the switch of the
/// kernel's threads through 0xFFE8, Timer0_A1. The program ends with CPUOFF, interrupts off.
pub const MSP430: Machine = Machine {
    name: "msp430",
    target: "msp430-none-elf",
    code: 0x5000,
    code_len: 0xB000,
    ram: 0x1C00,
    ram_len: 0x2000,
    nvm: 0x4000,
    nvm_len: NVM_BYTES as u32,
    mailbox: 0x1800,
    bench: 0x0F00,
    unit: 2,
};

/// Whether a machine runs a group of scenarios, of the suite or of the lab. What the kernel's calls
/// cost is measured on one. An MSP430 has no room for the lab's three builds of a program in an
/// image, and none for reserved places.
pub fn runs_on(group: &str, machine: &str) -> bool {
    match group {
        "rtos-costs" | "program-variants" | "program-journals" => machine == ARM.name,
        _ if group.starts_with("program-") => machine != MSP430.name,
        "rtos-places" => machine != MSP430.name,
        _ => true,
    }
}

/// Whether a group's scenarios need the [`bench`]: models of its devices, or they fail.
pub fn needs_bench(group: &str) -> bool {
    ["device", "device-events", "device-radio"].contains(&group)
}

/// All machines.
pub const MACHINES: [Machine; 3] = [ARM, RISCV, MSP430];

/// The cells of the mailbox. *In*: the host writes it before the first boot, and no boot changes
/// it. *Out*: the firmware writes it.
pub mod cell {
    /// In: which scenario of the image's group.
    pub const SCENARIO: u16 = 0;
    /// In: an argument; the number of a planted bug, or 0.
    pub const ARGUMENT: u16 = 1;
    /// Out: [`RUNNING`](super::RUNNING), [`FINISHED`](super::FINISHED) or
    /// [`FAILED`](super::FAILED). Set to running at each boot.
    pub const STATUS: u16 = 2;
    /// Out: what failed, see [`source_line`](super::source_line).
    pub const FAILURE: u16 = 3;
    /// Out: the measured section that begins; 0 when it ends.
    pub const MARK: u16 = 4;
    /// Out: boots, counted by start-up.
    pub const BOOTS: u16 = 5;
    /// Out: interrupts of the timer, over all boots.
    pub const TICKS: u16 = 6;
    /// In: the timer's period in instructions or so; 0 leaves interrupts off.
    pub const TIMER: u16 = 7;
    /// The first cell of the scenario's own.
    pub const OWN: u16 = 8;
    /// Out: 1 while an interrupt has an effect, 0 otherwise. If a scenario never writes it, every
    /// interrupt has one.
    pub const OPEN: u16 = 27;
    /// Out: how far an interrupt's handler has saved, of [`saved`](super::saved).
    pub const SAVED: u16 = 28;
    /// Out: the figure that comes next, of [`figure`](super::figure).
    pub const FIGURE: u16 = 29;
    /// Out: its value.
    pub const VALUE: u16 = 30;
    /// In: how many operations a scenario shall do; 0 for the few that every cut is made in.
    pub const ROUNDS: u16 = 31;
    /// How many cells there are.
    pub const COUNT: u16 = 32;
}

/// The registers of the bench: devices that the emulators have models of, each of 16 bits, and the
/// same ones on each machine. A program loads and stores them whole.
///
/// Every access lasts [`ACCESS_NS`](bench::ACCESS_NS), but those to what is the outside's: they are
/// for checks only.
pub mod bench {
    /// The outputs of a port with eight lamps.
    pub const LEDS: u16 = 0;
    /// Its directions: a 1 makes an output.
    pub const DIRECTION: u16 = 1;
    /// The inputs of a port with buttons.
    pub const INPUT: u16 = 2;
    /// Which of them were pressed; a 1 that is stored clears a flag.
    pub const FLAGS: u16 = 3;
    /// Which of them interrupt.
    pub const ENABLE: u16 = 4;
    /// The ADC's reference in millivolts; 0 switches it off.
    pub const REFERENCE: u16 = 5;
    /// The ADC's input.
    pub const SOURCE: u16 = 6;
    /// A store starts a conversion; reads as 1 while it runs.
    pub const CONVERT: u16 = 7;
    /// The ADC's result.
    pub const RESULT: u16 = 8;
    /// 1 selects the radio on SPI; reads as 1 when its crystal is stable.
    pub const SELECT: u16 = 9;
    /// A store sends a byte on SPI; reads as the byte that has come back.
    pub const SPI: u16 = 10;
    /// The clock's alarm. What is stored takes effect with its number.
    pub const ALARM: u16 = 11;
    /// The alarm's number.
    pub const NUMBER: u16 = 12;
    /// The number of the last press of a button. A flag that is cleared afterwards is that of this
    /// press: a later one keeps it.
    pub const EVENT: u16 = 13;

    /// The timer's period in accesses; 0 stops it.
    pub const PERIOD: u16 = 14;
    /// 1 when the timer has expired; a store clears that.
    pub const EXPIRED: u16 = 15;

    /// The first of the outside's.
    pub const OUTSIDE: u16 = 16;
    /// The lamps that are lit.
    pub const LIT: u16 = 16;
    /// What the outside saw of the lamps last, also before a power cut.
    pub const SEEN: u16 = 17;
    /// A store presses buttons.
    pub const PRESS: u16 = 18;
    /// How often they were pressed: the number of the last press.
    pub const PRESSED: u16 = 19;
    /// The presses whose flags were cleared: a bit for each number, modulo 16.
    pub const CLEARED: u16 = 20;
    /// The number of the last packet that has arrived.
    pub const ARRIVED: u16 = 21;
    /// The channel that the radio is set to, and its power in the upper half.
    pub const TUNED: u16 = 22;
    /// How often the alarm was set.
    pub const SETTINGS: u16 = 23;
    /// A store has the outside send a packet on [`CHANNEL`]: the number of the first one that was
    /// not answered. It arrives if the radio receives.
    pub const SEND: u16 = 24;
    /// The number of the last packet that was answered.
    pub const ANSWERED: u16 = 25;
    /// How many registers there are.
    pub const COUNT: u16 = 26;

    /// How long an access lasts.
    pub const ACCESS_NS: u64 = 50_000;
    /// The channel on which the outside listens.
    pub const CHANNEL: u8 = 7;
    /// The ADC's input at which there is a voltage, and how much in millivolts: the conversions
    /// since the power came on make it a little higher, [`RIPPLE_MV`] at the most.
    pub const SENSOR: u16 = 3;
    /// See [`SENSOR`].
    pub const SENSOR_MV: u16 = 1000;
    /// See [`SENSOR`].
    pub const RIPPLE_MV: u16 = 56;
    /// The reference that the programs of the suite use.
    pub const REFERENCE_MV: u16 = 2000;
}

/// How far an interrupt handler has saved the scenario's RAM. The rig cuts between the first of
/// these values and the last one.
pub mod saved {
    /// The handler was never called.
    pub const NOTHING: u16 = 0;
    /// Everything is saved.
    pub const COMPLETE: u16 = 1;
    /// The handler is saving.
    pub const BEGUN: u16 = 2;
    /// The scenario continues, or is about to.
    pub const OVER: u16 = 3;
}

/// For [`cell::ROUNDS`]: no end. The number of the round begins again at 0. Only `dirty_flag` and
/// `serve` of the planted bugs know it.
pub const ENDLESS: u16 = u16::MAX;

/// The scenario has not ended.
pub const RUNNING: u16 = 0;
/// The scenario has come to its end, and every check held.
pub const FINISHED: u16 = 1;
/// A check failed: [`cell::FAILURE`] says which.
pub const FAILED: u16 = 2;

/// The failure code of a panic; the line is in the lower bits, the file is not known.
pub const PANICKED: u16 = 0xF800;
/// The failure code when there is no such scenario.
pub const NO_SCENARIO: u16 = 0xFFFF;
/// The failure code of a fault, or of an interrupt that was not enabled.
pub const FAULT: u16 = 0xFFFE;

/// The files of the suite that checks stand in; the failure code names one of them.
pub const FILES: &[&str] = &[
    "suite/src/scene.rs",
    "suite/src/nvmem.rs",
    "suite/src/tx.rs",
    "suite/src/objects.rs",
    "suite/src/contexts.rs",
    "suite/src/costs.rs",
    "suite/src/replay.rs",
    "suite/src/planted.rs",
    "suite/src/nvlist.rs",
    "suite/src/joined.rs",
    "suite/src/heap.rs",
    "suite/src/heap_costs.rs",
    "suite/src/heap_interrupts.rs",
    "suite/src/checkpoint.rs",
    "suite/src/checkpoint/target.rs",
    "suite/src/checkpoint/host.rs",
    "suite/src/heap_work.rs",
    "suite/src/checkpoint/interrupted.rs",
    "suite/src/switch.rs",
    "suite/src/threads.rs",
    "suite/src/mirror.rs",
    "suite/src/rtos.rs",
    "suite/src/rtos/costs.rs",
    "suite/src/programs.rs",
    "suite/src/rtos/boot.rs",
    "suite/src/rtos/signals.rs",
    "suite/src/rtos/expiries.rs",
    "suite/src/rtos/locks.rs",
    "suite/src/rtos/posts.rs",
    "suite/src/rtos/places.rs",
    "suite/src/devices.rs",
    "suite/src/checkpoint/calls.rs",
    "suite/src/board.rs",
    "suite/src/board/lamps.rs",
    "suite/src/board/blink.rs",
    "suite/src/board/buttons.rs",
    "suite/src/board/sensor.rs",
    "suite/src/board/radio.rs",
    "suite/src/board/node.rs",
    "suite/src/board/receive.rs",
    "suite/src/board/alarm.rs",
    "suite/src/board/sense.rs",
    "suite/src/journals.rs",
    // Of the lab.
    "suite/src/rsa.rs",
];

/// The failure code of a line: its file's number in [`FILES`] times 1024, and the line.
///
/// **Panics**: at compile time, when the file is not in the list.
pub const fn code(file: &str, line: u32) -> u16 {
    let mut i = 0;
    while i < FILES.len() {
        if ends_with(file.as_bytes(), FILES[i].as_bytes()) {
            assert!(line < 1024, "a file of the suite is too long");
            assert!((i as u16) < PANICKED >> 10, "the suite has too many files");
            return (i as u16) << 10 | line as u16;
        }
        i += 1;
    }
    panic!("add the file to abi::FILES")
}

/// File and line of a failure code; `None` when it is not that of a check.
pub fn source_line(code: u16) -> Option<(&'static str, u16)> {
    let file = FILES.get(usize::from(code >> 10))?;
    Some((file, code & 0x3FF))
}

/// Whether a path ends with this name: the whole last part of it, or several.
const fn ends_with(path: &[u8], name: &[u8]) -> bool {
    if path.len() < name.len() {
        return false;
    }
    let from = path.len() - name.len();
    let mut i = 0;
    while i < name.len() {
        if path[from + i] != name[i] {
            return false;
        }
        i += 1;
    }
    from == 0 || path[from - 1] == b'/' || path[from - 1] == b'\\'
}

/// Measured sections: `Scene::measure` writes the number to [`cell::MARK`].
pub mod section {
    macro_rules! sections {
        ($($(#[$doc:meta])* $name:ident = $n:literal $text:literal;)*) => {
            $($(#[$doc])* pub const $name: u16 = $n;)*
            /// The numbers and names of all sections.
            pub const NAMES: &[(u16, &str)] = &[$(($n, $text)),*];
        };
    }
    /// A whole program: its memory is formatted, and its threads are made.
    pub const PROGRAM_OPEN: u16 = 170;
    /// Its threads run, to their end.
    pub const PROGRAM: u16 = 171;

    sections! {
        /// Nothing: what the marks themselves cost.
        EMPTY = 1 "empty";
        /// Eight bytes by plain volatile stores.
        PLAIN_8 = 2 "plain_8";
        /// The same eight bytes, a resident object of a pool, in a transaction.
        UPDATE_8 = 3 "update_8";
        /// The same as the first transaction after an open, which ends what the walk at open knew.
        UPDATE_8_AFTER_OPEN = 11 "update_8_after_open";
        /// A first mutable access to 64 bytes in a transaction.
        FIRST_MUT_64 = 4 "first_mut_64";
        /// A second one, and a store.
        SECOND_MUT_64 = 5 "second_mut_64";
        /// An allocation of 32 bytes in a transaction.
        ALLOC_32 = 6 "alloc_32";
        /// Its release.
        FREE_32 = 7 "free_32";
        /// A write to a `Ptr` of 8 bytes in a transaction.
        PTR_WRITE_8 = 8 "ptr_write_8";
        /// A transaction that changes 8 bytes and is aborted.
        ABORT_8 = 9 "abort_8";
        /// A pool with one object is opened.
        OPEN = 10 "open";
        /// A step without a result, executed.
        STEP_EMPTY = 20 "step_empty";
        /// A step without a result, bypassed.
        BYPASS_STEP = 21 "bypass_step";
        /// A step with a result of 4 bytes, executed.
        STEP_RESULT_4 = 22 "step_result_4";
        /// A step with a result of 4 bytes, bypassed.
        BYPASS_RESULT_4 = 23 "bypass_result_4";
        /// An input of 4 bytes, recorded.
        RECORD_4 = 24 "record";
        /// An input of 4 bytes, bypassed.
        BYPASS_RECORD_4 = 25 "bypass_record";
        /// A step that changes a resident object of 8 bytes, executed.
        STEP_UPDATE_8 = 26 "step_update_8";
        /// The same, bypassed.
        BYPASS_UPDATE_8 = 27 "bypass_update_8";
        /// A program's memory is opened.
        OPEN_REPLAY = 28 "open_replay";
        /// A step without a result in a loop, executed.
        STEP = 30 "step";
        /// One iteration of a loop that is one step without a result.
        STEP_ITERATION = 31 "step_iteration";
        /// One iteration of a loop whose body makes one step without a result.
        ITERATION_WITH_STEP = 32 "iteration_with_step";
        /// One iteration of a loop without a step.
        TURN = 33 "turn";
        /// A step that sends a message of 8 bytes, executed, and the message taken by the outlet.
        SEND = 34 "send";
        /// One turn of a kernel's thread: a loop of one step that does nothing.
        RTOS_STEP = 160 "rtos_step";
        /// The same, and a message of 8 bytes is sent.
        RTOS_SEND = 161 "rtos_send";
        /// The same, and one is received.
        RTOS_RECEIVE = 162 "rtos_receive";
        /// The same, and a semaphore is given.
        RTOS_GIVE = 163 "rtos_give";
        /// The same, and it is taken.
        RTOS_TAKE = 164 "rtos_take";
        /// The same, and a flag of an event group is set.
        RTOS_EVENT = 165 "rtos_event";
        /// The same, and a flag that is set is waited for.
        RTOS_EVENT_WAIT = 166 "rtos_event_wait";
        /// A mutex is locked and given back.
        RTOS_LOCK_UNLOCK = 167 "rtos_lock_unlock";
        /// A deadline is recorded. It has come.
        RTOS_DELAY = 168 "rtos_delay";
        /// A thread lets another one run, which goes on.
        RTOS_SWITCH = 169 "rtos_switch";
        /// One lamp of a port is switched.
        DEVICE_BARE = 180 "device_bare";
        /// The same, and its context of a byte commits by itself.
        DEVICE_OWN = 181 "device_own";
        /// The same with a context of two units.
        DEVICE_OWN_LONG = 182 "device_own_long";
        /// An interrupt posts an event.
        DEVICE_TOP_HALF = 183 "device_top_half";
        /// One turn of a loop of one step with devices: it changes none.
        DEVICE_STEP = 184 "device_step";
        /// The same, and one lamp is switched with its commit.
        DEVICE_STAGED = 185 "device_staged";
        /// The same, and an event is handled.
        DEVICE_EVENT = 186 "device_event";
        /// The turn of a loop of one step without devices.
        DEVICE_NO_SET = 187 "device_no_set";
        /// One lamp of a port is switched, and its context of a byte commits by itself: on a stack
        /// of its own.
        DEVICE_OWN_STACK = 188 "device_own_stack";
        /// A heap of 1 KiB is formatted, with a save just in time.
        HEAP_FORMAT = 50 "heap_format";
        /// It is opened: nothing but its root is there.
        HEAP_OPEN = 51 "heap_open";
        /// An object of 32 bytes is allocated.
        HEAP_ALLOC_32 = 52 "heap_alloc_32";
        /// It is got and released, resident.
        HEAP_GET = 53 "heap_get";
        /// The same, to be written.
        HEAP_GET_MUT = 54 "heap_get_mut";
        /// A persist, when one object of 32 bytes is dirty.
        HEAP_PERSIST_32 = 55 "heap_persist_32";
        /// A restore when nothing is held.
        HEAP_RESTORE = 56 "heap_restore";
        /// An object of 32 bytes that is not resident is freed.
        HEAP_FREE_32 = 57 "heap_free_32";
        /// An object of 256 bytes is got to be written, for which another one must be written out.
        HEAP_EVICT_256 = 58 "heap_get_mut_evict_256";
        /// An object of 32 bytes that is not resident is got and released. One of 256 bytes must
        /// leave RAM first; it is clean.
        HEAP_MISS_CLEAN = 62 "heap_miss_clean";
        /// The same. It is dirty, and is written back first.
        HEAP_MISS_DIRTY = 63 "heap_miss_dirty";
        /// A heap of 1 KiB is formatted, with snapshots.
        HEAP_FORMAT_SNAPSHOT = 59 "heap_format_snapshot";
        /// It is opened.
        HEAP_OPEN_SNAPSHOT = 60 "heap_open_snapshot";
        /// A commit, when one object of 32 bytes is dirty.
        HEAP_COMMIT_32 = 61 "heap_commit_32";
        /// A queue on a heap that is 10 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_10 = 70 "heap_fifo_10";
        /// A queue on a heap that is 16 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_16 = 71 "heap_fifo_16";
        /// A queue on a heap that is 20 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_20 = 72 "heap_fifo_20";
        /// A queue on a heap that is 30 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_30 = 73 "heap_fifo_30";
        /// A queue on a heap that is 60 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_60 = 74 "heap_fifo_60";
        /// A queue on a heap that is 120 long: an element of 256 bytes is taken and one is put.
        HEAP_FIFO_120 = 75 "heap_fifo_120";
        /// An update of the key-value workload, uniform.
        HEAP_KV_UNIFORM = 80 "heap_kv_uniform";
        /// An update of the key-value workload, sequential.
        HEAP_KV_SEQUENTIAL = 81 "heap_kv_sequential";
        /// An update of the key-value workload, unequal.
        HEAP_KV_UNEQUAL = 82 "heap_kv_unequal";
        /// An update of the key-value workload, partitioned.
        HEAP_KV_PARTITIONED = 83 "heap_kv_partitioned";
        /// A get and its release, resident, with 1 object that is.
        HEAP_GET_RESIDENT_1 = 84 "heap_get_resident_1";
        /// The same with 400.
        HEAP_GET_RESIDENT_400 = 85 "heap_get_resident_400";
        /// An object of 1 KiB is got to be written, for which another one must be written out.
        HEAP_EVICT_1024 = 86 "heap_get_mut_evict_1024";
        /// An object of 32 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_32 = 100 "heap_retrieval_best_32";
        /// An object of 32 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_32 = 101 "heap_retrieval_bad_32";
        /// An object of 32 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_32 = 102 "heap_retrieval_worst_32";
        /// An object of 64 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_64 = 110 "heap_retrieval_best_64";
        /// An object of 64 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_64 = 111 "heap_retrieval_bad_64";
        /// An object of 64 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_64 = 112 "heap_retrieval_worst_64";
        /// An object of 128 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_128 = 120 "heap_retrieval_best_128";
        /// An object of 128 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_128 = 121 "heap_retrieval_bad_128";
        /// An object of 128 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_128 = 122 "heap_retrieval_worst_128";
        /// An object of 256 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_256 = 130 "heap_retrieval_best_256";
        /// An object of 256 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_256 = 131 "heap_retrieval_bad_256";
        /// An object of 256 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_256 = 132 "heap_retrieval_worst_256";
        /// An object of 512 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_512 = 140 "heap_retrieval_best_512";
        /// An object of 512 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_512 = 141 "heap_retrieval_bad_512";
        /// An object of 512 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_512 = 142 "heap_retrieval_worst_512";
        /// An object of 1024 bytes is got. It is resident.
        HEAP_RETRIEVAL_BEST_1024 = 150 "heap_retrieval_best_1024";
        /// An object of 1024 bytes is got. It is not, and there is room.
        HEAP_RETRIEVAL_BAD_1024 = 151 "heap_retrieval_bad_1024";
        /// An object of 1024 bytes is got. 1 KiB must be written out first.
        HEAP_RETRIEVAL_WORST_1024 = 152 "heap_retrieval_worst_1024";
        /// A node is put between two others of an `nvlist`.
        LIST_INSERT = 40 "insert";
        /// A node is taken out of it.
        LIST_REMOVE = 41 "remove";
        /// A node goes from one list to another.
        LIST_MOVE = 42 "move";
        /// A node is put between two others with `pmem-tx`'s undo log.
        UNDO_LIST_INSERT = 43 "undo_insert";
        /// The same with links of 32 bits.
        UNDO_WIDE_INSERT = 44 "undo_insert_32";
    }
}

/// What the workloads of lab/EVALUATION.md do in one measured section.
pub mod work {
    use super::section::*;

    /// Gets.
    pub const GETS: u16 = 400;
    /// Rounds of a queue.
    pub const ROUNDS: u16 = 120;
    /// Updates of values.
    pub const UPDATES: u16 = 500;

    /// How many operations were measured together; `None` when the section is none of a workload.
    pub const fn times(section: u16) -> Option<u16> {
        match section {
            HEAP_FIFO_10..=HEAP_FIFO_120 => Some(ROUNDS),
            HEAP_KV_UNIFORM..=HEAP_KV_PARTITIONED => Some(UPDATES),
            HEAP_GET_RESIDENT_1 | HEAP_GET_RESIDENT_400 => Some(GETS),
            HEAP_EVICT_1024 | HEAP_RETRIEVAL_BEST_32..=HEAP_RETRIEVAL_WORST_1024 => Some(1),
            _ => None,
        }
    }
}

/// What a scenario counts itself: `Scene::figure` writes the number and the value.
pub mod figure {
    /// Bytes of a heap's own variable, its medium left out.
    pub const HEAP_BYTES: u16 = 1;
    /// Bytes of a handle.
    pub const HEAP_HANDLE_BYTES: u16 = 2;
    /// Objects of 32 bytes that are resident at once in 4 KiB, the heap's own variable included.
    pub const HEAP_RESIDENT_32: u16 = 3;
    /// The same of 256 bytes.
    pub const HEAP_RESIDENT_256: u16 = 4;
    /// Objects of 32 bytes in 8 KiB.
    pub const HEAP_RESIDENT_32_IN_8_KIB: u16 = 5;
    /// Bytes of RAM of a thread of the kernel, the program's part of its stack left out.
    pub const RTOS_RAM_PER_THREAD: u16 = 6;
    /// The first half of a program's first result, the lower one. The others follow.
    pub const RESULTS: u16 = 16;
}
