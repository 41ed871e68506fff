//! Lists, texts and encoded values of bounded length: what they do, their bytes, and any bytes.

use nvmem::persist::{from_bytes, to_bytes};
use nvmem::ram::RamFram;
use nvmem::{CapacityError, Invalid, List, Maybe, Persist, Plain, Postcard, Record, Text};
use std::fmt::Write;
use std::mem::MaybeUninit;

fn bytes<T: Plain>(v: T) -> Vec<u8> {
    let mut buf = [const { MaybeUninit::uninit() }; 64];
    to_bytes(v, &mut buf).unwrap().to_vec()
}

#[test]
fn a_list_is_a_slice_of_its_items() {
    let mut list = List::<u32, 3>::new();
    assert!(list.is_empty() && !list.is_full() && list.pop().is_none());
    assert_eq!(
        (list.push(5), list.push(7), list.push(9)),
        (Ok(()), Ok(()), Ok(()))
    );
    assert!(list.is_full());
    assert_eq!((list.push(11), list.capacity()), (Err(11), 3));
    list[1] += 1;
    assert_eq!(&*list, [5, 8, 9]);
    assert_eq!((&list).into_iter().sum::<u32>(), 22);
    assert_eq!((list.swap_remove(3), list.swap_remove(0)), (None, Some(5)));
    assert_eq!(&*list, [9, 8]);
    assert_eq!(list, List::<u32, 5>::try_from([9, 8].as_slice()).unwrap());
    assert_eq!(list.extend_from_slice(&[1, 2]), Err(CapacityError));
    assert_eq!(
        (list.extend_from_slice(&[1]), list.pop()),
        (Ok(()), Some(1))
    );
    let copy = list;
    list.clear();
    assert_eq!((list.len(), &*copy), (0, [9, 8].as_slice()));
    assert_eq!(
        List::<u8, 1>::try_from([1, 2].as_slice()),
        Err(CapacityError)
    );
    assert_eq!(List::<u8, 0>::new().push(1), Err(1));
    let mut none = List::<(), 2>::new();
    assert_eq!(
        (none.push(()), none.push(()), none.push(())),
        (Ok(()), Ok(()), Err(()))
    );
}

#[test]
fn a_text_is_a_string() {
    let mut text = Text::<8>::new();
    assert_eq!((text.push_str("häß"), text.push('n')), (Ok(()), Ok(())));
    assert_eq!((text.len(), text.capacity()), (6, 8));
    assert_eq!((text.push_str("123"), &*text), (Err(CapacityError), "häßn"));
    assert!(write!(text, "{}", 4).is_ok() && write!(text, "{}", 567).is_err());
    assert_eq!(
        (text.pop(), text.pop(), text.pop()),
        (Some('4'), Some('n'), Some('ß'))
    );
    assert_eq!(
        (text, format!("{text} {text:?}")),
        (Text::try_from("hä").unwrap(), "hä \"hä\"".into())
    );
    assert_eq!(text, Text::<3>::try_from("hä").unwrap());
    assert!(Text::<2>::try_from("hä").is_err());
    text.clear();
    assert_eq!((text.pop(), text.is_empty()), (None, true));
    assert_eq!(bytes(text), [0; 10], "a removed text does not stay");
}

/// The format: these bytes are on media in the field.
#[test]
fn golden_bytes() {
    let mut list = List::<u32, 3>::try_from([1, 2, 3].as_slice()).unwrap();
    list.pop();
    assert_eq!(
        bytes(list),
        [2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]
    );
    let list = List::<Maybe<u16>, 2>::try_from([Maybe::Some(0x0102)].as_slice()).unwrap();
    assert_eq!(bytes(list), [1, 0, 1, 0, 2, 1, 0, 0, 0, 0]);
    let text = Text::<5>::try_from("NVM").unwrap();
    assert_eq!(bytes(text), [3, 0, b'N', b'V', b'M', 0, 0]);
    let encoded = Postcard::<(u32, Option<u8>), 6>::new(&(300, Some(5))).unwrap();
    assert_eq!(bytes(encoded), [4, 0, 0xAC, 2, 1, 5, 0, 0]);
    assert_eq!(
        (align_of::<Text<5>>(), align_of::<Postcard<u64, 5>>()),
        (1, 1)
    );
    const { assert!(!Text::<5>::PADDED && List::<u8, 4>::PADDED) }
    assert_eq!(
        [
            nvmem::fingerprint::<List<u32, 3>>(),
            nvmem::fingerprint::<Text<5>>(),
            nvmem::fingerprint::<Postcard<u8, 5>>(),
        ],
        [
            10_232_817_973_102_444_900,
            8_954_601_796_193_181_693,
            8_994_814_741_346_957_118
        ],
    );
}

#[test]
fn hostile_bytes_are_refused() {
    let list = |b: [u8; 8]| from_bytes::<List<bool, 6>>(&b).map(|l| l.to_vec());
    assert_eq!(list([2, 0, 0, 1, 9, 9, 9, 9]), Ok(vec![false, true]));
    assert_eq!(list([6, 0, 1, 1, 1, 1, 1, 1]).map(|l| l.len()), Ok(6));
    assert_eq!(list([7, 0, 1, 1, 1, 1, 1, 1]), Err(Invalid::Bits("List")));
    assert_eq!(list([0, 1, 1, 1, 1, 1, 1, 1]), Err(Invalid::Bits("List")));
    assert_eq!(list([3, 0, 1, 1, 2, 1, 1, 1]), Err(Invalid::Bits("bool")));
    let text = |b: [u8; 6]| from_bytes::<Text<4>>(&b).map(|t| t.len());
    assert_eq!(text([2, 0, b'o', b'k', 0xFF, 0xFF]), Ok(2));
    assert_eq!(
        text([5, 0, b'o', b'k', b'o', b'k']),
        Err(Invalid::Bits("Text"))
    );
    assert_eq!(text([0xFF; 6]), Err(Invalid::Bits("Text")));
    // A character that is cut.
    assert_eq!(text([1, 0, 0xC3, 0xA4, 0, 0]), Err(Invalid::Bits("Text")));
    let encoded = |b: [u8; 5]| from_bytes::<Postcard<Option<char>, 3>>(&b);
    assert_eq!(encoded([3, 0, 1, 1, b'x']).unwrap().get(), Ok(Some('x')));
    assert_eq!(encoded([4, 0, 1, 1, b'x']), Err(Invalid::Bits("Postcard")));
    assert!(encoded([3, 0, 9, 1, b'x']).unwrap().get().is_err());
    assert!(
        encoded([1, 0, 1, 1, b'x']).unwrap().get().is_err(),
        "cut short"
    );
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
enum Route {
    Direct,
    Through(Vec<u16>, Option<Box<Route>>),
}

#[test]
fn an_encoded_value_comes_back_or_does_not_fit() {
    let route = Route::Through(vec![1, 300], Some(Box::new(Route::Direct)));
    let mut v = Postcard::<Route, 8>::new(&route).unwrap();
    assert_eq!((v.get(), v.encoded().len()), (Ok(route.clone()), 7));
    let long = Route::Through(vec![1; 8], None);
    assert_eq!(v.set(&long), Err(postcard::Error::SerializeBufferFull));
    assert_eq!(v.get(), Ok(route), "the old value stays");
    assert_eq!(
        (v.set(&Route::Direct), v.get()),
        (Ok(()), Ok(Route::Direct))
    );
    // A value may borrow from its bytes.
    let name = Postcard::<&str, 8>::new(&"FRAM").unwrap();
    assert_eq!(name.get(), Ok("FRAM"));
}

#[derive(Persist, Debug, PartialEq, Clone)]
#[repr(C)]
struct Settings {
    name: Text<12>,
    route: Postcard<Route, 16>,
    samples: List<u16, 4>,
}

#[test]
fn a_record_holds_them() {
    let mut medium = RamFram::<256>::filled(0);
    let mut settings = Settings {
        name: Text::try_from("pump").unwrap(),
        route: Postcard::new(&Route::Through(vec![9], None)).unwrap(),
        samples: List::new(),
    };
    let first = settings.clone();
    let mut record = Record::open(&mut medium, 0..256, first).unwrap();
    settings.samples.push(77).unwrap();
    record.set(settings.clone()).unwrap();
    let other = Settings {
        name: Text::new(),
        route: Postcard::new(&Route::Direct).unwrap(),
        samples: List::new(),
    };
    let record = Record::open(&mut medium, 0..256, other).unwrap();
    assert_eq!(record.get(), &settings);
}

#[test]
fn they_convert_from_and_to_heapless() {
    let items: heapless::Vec<u16, 4> = heapless::Vec::from_slice(&[1, 2, 3]).unwrap();
    let list = List::from(items.clone());
    assert_eq!(&*list, [1, 2, 3]);
    assert_eq!(heapless::Vec::<u16, 4>::from(list), items);
    let s: heapless::String<8> = heapless::String::try_from("sensor").unwrap();
    let text = Text::from(&s);
    assert_eq!(
        (text, Text::from(s.clone())),
        (Text::try_from("sensor").unwrap(), text)
    );
    assert_eq!(heapless::String::from(text), s);
}
