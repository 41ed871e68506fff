//! Catches panics of the program under test: they are results, not messages on the terminal.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `f`. Returns a panic's message and location as text.
pub(crate) fn catch(f: impl FnOnce()) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return before(info);
            }
            let what = info
                .payload()
                .downcast_ref::<&str>()
                .map(|s| s.to_string())
                .or_else(|| info.payload().downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic".into());
            let at = info
                .location()
                .map(|l| format!(" (at {}:{})", l.file(), l.line()))
                .unwrap_or_default();
            SAID.with_borrow_mut(|s| {
                s.get_or_insert(format!("{what}{at}"));
            });
        }));
    });
    let was = QUIET.replace(true);
    let r = panic::catch_unwind(AssertUnwindSafe(f));
    QUIET.set(was);
    let said = SAID.take();
    r.map_err(|_| said.unwrap_or_else(|| "a panic".into()))
}
