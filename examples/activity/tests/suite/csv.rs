//! Accepted and refused files of recordings, with the error messages.

use crate::recordings::{Labels, parse};

const HEADER: &str = "series,label,t,ax,ay,az,gx,gy,gz\n";

fn rows(series: u32, label: &str, t: std::ops::Range<u32>) -> String {
    t.map(|t| format!("{series},{label},{t},1,-2,3,-4,5,34866\n"))
        .collect()
}

fn refused(file: &str, line: usize, says: &str) {
    let mut labels = Labels(vec!["Idle".into()]);
    let e = parse(file.as_bytes(), &mut labels).unwrap_err();
    assert_eq!((e.line, e.message.contains(says)), (line, true), "{e}");
    assert_eq!(labels.0, ["Idle"]);
}

#[test]
fn well_formed() {
    let mut labels = Labels::default();
    let file = HEADER.to_owned() + &rows(7, "Rowing", 0..60) + &rows(2, "Idle", 50..75);
    let r = parse(file.as_bytes(), &mut labels).unwrap();
    assert_eq!((r[0].series, r[0].class, r[0].windows().len()), (7, 0, 2));
    assert_eq!((r[1].series, r[1].class, r[1].windows().len()), (2, 1, 1));
    assert_eq!(r[1].samples[0], [1, -2, 3, -4, 5, 34866]);
    assert_eq!(labels.0, ["Rowing", "Idle"]);
    // As other programs write it.
    let windows = format!("\u{feff}{}", file.replace('\n', "\r\n"));
    let quoted = file
        .replace("Rowing", "\"Rowing\"")
        .replace("series", "\"series\"");
    for file in [windows, quoted] {
        let again = parse(file.as_bytes(), &mut labels).unwrap();
        assert_eq!((again.len(), again[0].class, labels.0.len()), (2, 0, 2));
    }
    let turned = "label,gz,series,t,ax,ay,az,gx,gy\n".to_owned()
        + &(0..25)
            .map(|t| format!("Rowing,6,7,{t},1,2,3,4,5\n"))
            .collect::<String>();
    let r = parse(turned.as_bytes(), &mut labels).unwrap();
    assert_eq!(r[0].samples[0], [1, 2, 3, 4, 5, 6]);
}

#[test]
fn malformed() {
    let good = HEADER.to_owned() + &rows(0, "A", 0..25);
    refused("", 1, "empty");
    refused(HEADER, 2, "no recordings");
    refused("series,label,t,ax,ay,az,gx,gy\n", 1, "no column `gz`");
    refused("series,label,t,ax,ay,az,gx,gy,gz,hr\n", 1, "`hr`");
    refused(&(good.clone() + "0,A,25,1,2,3,4,5\n"), 27, "8 fields");
    refused(
        &(good.clone() + "0,A,25,1,2,3,4,5,1.5\n"),
        27,
        "gz is `1.5`",
    );
    refused(
        &(good.clone() + "\n\n0,A,25,1,2,x,4,5,6\n"),
        29,
        "az is `x`",
    );
    refused(
        &(good.clone() + "0,A,25,1,2147483648,3,4,5,6\n"),
        27,
        "too large",
    );
    refused(
        &(good.clone() + "-1,A,25,1,2,3,4,5,6\n"),
        27,
        "series is `-1`",
    );
    refused(
        &(good.clone() + "0,A,26,1,2,3,4,5,6\n"),
        27,
        "t is 26 after 24",
    );
    refused(
        &(good.clone() + "0,B,25,1,2,3,4,5,6\n"),
        27,
        "was `A` and is `B`",
    );
    refused(&(good.clone() + "1,,0,1,2,3,4,5,6\n"), 27, "label is empty");
    let other = rows(1, "B", 0..25);
    refused(
        &(good.clone() + &other + &rows(0, "A", 25..50)),
        52,
        "after another one",
    );
    refused(&(good.clone() + &rows(1, "B", 0..24)), 50, "24 samples");
    refused(
        &(good.clone() + &rows(1, "B", 0..24) + &rows(2, "B", 0..25)),
        51,
        "recording 1 has 24",
    );
    let many: String = (1..9).map(|i| rows(i, &format!("L{i}"), 0..25)).collect();
    refused(
        &(good.clone() + &many),
        27 + 6 * 25,
        "maximum of 8 activities",
    );
    let mut bytes = good.into_bytes();
    bytes.extend(b"0,\xFF,25,1,2,3,4,5,6\n");
    let e = parse(&bytes, &mut Labels::default()).unwrap_err();
    assert_eq!((e.line, e.message.as_str()), (27, "not UTF-8"));
}
