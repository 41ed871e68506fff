//! Catches panics of the program under test: they are results, not messages on the terminal.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
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
            let what = text(info.payload());
            let at = info
                .location()
                .map(|l| format!(" (at {}:{})", l.file(), l.line()))
                .unwrap_or_default();
            SAID.with_borrow_mut(|said| said.push(format!("{what}{at}")));
        }));
    });
    let was = QUIET.replace(true);
    let r = panic::catch_unwind(AssertUnwindSafe(f));
    QUIET.set(was);
    let said = SAID.take();
    // The program may have caught others before.
    r.map_err(|payload| {
        let what = text(&*payload);
        let its = said.into_iter().rev().find(|s| s.starts_with(what));
        its.unwrap_or_else(|| what.into())
    })
}

/// What a panic says.
fn text(payload: &dyn Any) -> &str {
    let whole = payload.downcast_ref::<String>().map(String::as_str);
    let said = payload.downcast_ref::<&str>().copied().or(whole);
    said.unwrap_or("a panic")
}
