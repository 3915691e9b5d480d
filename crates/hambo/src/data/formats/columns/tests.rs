//! Columns found by name.

use super::*;

fn find(said: &str, header: &str) -> std::result::Result<Places, String> {
    let header: Vec<String> = header.split(',').map(str::to_owned).collect();
    ColumnNames::parse(&[said.to_owned()]).unwrap().find(&header, true)
}

#[test]
fn usual_names_are_found_in_the_order_of_their_numbers() {
    let mut header: Vec<String> = (0..11).rev().map(|i| format!("obs_{i}")).collect();
    header.extend(["a0", "Reward", "done", "truncated", "episode"].map(str::to_owned));
    let p = ColumnNames::default().find(&header, true).unwrap();
    assert_eq!(p.state, (0..11).rev().collect::<Vec<_>>());
    assert_eq!((p.action, p.reward, p.next), (vec![11], Some(12), vec![]));
    assert_eq!((p.terminal, p.timeout, p.episode), (Some(13), Some(14), Some(15)));
    let p = find("", "s[1],s[2],action,r,next_s[1],next_s[2],time").unwrap();
    assert_eq!((p.state, p.action, p.reward, p.next), (vec![0, 1], vec![2], Some(3), vec![4, 5]));
}

#[test]
fn what_the_user_says_goes_first() {
    let p = find("state=y,x reward=cost next=x2,y2", "x,y,x2,y2,a,reward,cost").unwrap();
    assert_eq!((p.state, p.action, p.reward, p.next), (vec![1, 0], vec![4], Some(6), vec![2, 3]));
    let p = find("state=q_* action=u", "q_1,q_0,u,reward,s0").unwrap();
    assert_eq!((p.state, p.action), (vec![1, 0], vec![2]));
}

#[test]
fn doubts_are_errors_in_words() {
    let error = |said, header| find(said, header).unwrap_err();
    assert!(error("", "x,a0,r").starts_with("no column for the state (`s0`"));
    assert!(error("", "s0,u,r").contains("--columns action=…"));
    assert!(error("", "s0,a0,cost").contains("it has `s0`, `a0`, `cost`"));
    assert!(error("", "s0,s2,a,r").contains("`s0` and `s2` of the state are not numbered"));
    assert!(error("", "s0,s0,a,r").contains("are not numbered"));
    assert!(error("", "s0,obs0,a,r").contains("may both be the state"));
    assert!(
        error("", "s0,a,r,next_s0,next_s1")
            .contains("1 columns for the state, 2 for the next state")
    );
    assert!(error("state=postion", "position,a,r").contains("did you mean `position`?"));
    assert!(error("state=a", "s0,a,r").contains("column `a` is used twice, for state and action"));
    assert!(error("state=x", "x,x,a,r").contains("two columns are named `x`"));
    assert!(error("state=x reward=r,x", "x,a,r").contains("2 columns for reward: expected one"));
    for (said, words) in [
        ("states=x", "did you mean `state`?"),
        ("x,y", "before the equals sign"),
        ("state=x,,y", "single commas"),
        ("state=", "single commas"),
        ("state=x state=y", "only once"),
    ] {
        let error = ColumnNames::parse(&[said.to_owned()]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
