use super::*;

/// Appends the description of a table of 12 bytes whose fields lie at these places, and its first number.
fn begin(bytes: &mut Vec<u8>, fields: [u16; 6]) {
    let description = [16, 12, fields[0], fields[1], fields[2], fields[3], fields[4], fields[5]];
    bytes.extend(description.iter().flat_map(|n: &u16| n.to_le_bytes()));
    bytes.extend(16i32.to_le_bytes());
}

/// Appends a list of tables that all are the one after it.
fn same(bytes: &mut Vec<u8>, count: u32) {
    bytes.extend(count.to_le_bytes());
    for i in 0..count {
        bytes.extend((4 * (count - i) + 16).to_le_bytes());
    }
}

#[test]
fn columns_within_columns_without_end_are_refused() {
    let mut description = 20u32.to_le_bytes().to_vec(); // of the outermost table
    begin(&mut description, [0, 4, 8, 0, 0, 0]);
    description.extend([1, 0, 0, 0]); // a schema
    description.extend(20u32.to_le_bytes());
    begin(&mut description, [0, 4, 0, 0, 0, 0]);
    description.extend([8, 0, 0, 0, 0, 0, 0, 0]); // where its columns are
    for _ in 0..DEEPEST {
        same(&mut description, 300);
        begin(&mut description, [0, 0, 4, 0, 0, 8]);
        description.extend([13, 0, 0, 0, 4, 0, 0, 0]); // a record
    }
    same(&mut description, 0);
    let mut file = b"ARROW1\0\0\xff\xff\xff\xff".to_vec();
    file.extend((description.len() as u32).to_le_bytes());
    file.extend(description);
    let problem = batches(&file).err().unwrap();
    assert!(problem.contains("more than 65536 columns"), "{problem}");
}
