//! Any file as a capture: it is read up to its fault, never past its end; what
//! was read is the same after writing it in both formats; cut into other
//! segments it is still a capture.

use weir_io::capture::{
    CaptureReader, OwnedRecord, PcapWriter, PcapngWriter, ResegmentOptions, Resolution, resegment,
};

/// The whole input is the file.
pub fn run(data: &[u8]) {
    let Some(records) = read(data) else {
        return;
    };
    let total: usize = records.iter().map(|record| record.data.len()).sum();
    assert!(total <= data.len(), "more was read than is there");
    write_pcapng(&records);
    write_pcap(&records);
    if total < 20_000 {
        let cut = resegment(&records, &ResegmentOptions::default(), data.len() as u64);
        assert!(cut.len() >= records.len(), "a packet was lost");
        let in_order = |records: &[OwnedRecord]| records.is_sorted_by_key(|r| r.time_ns);
        assert!(!in_order(&records) || in_order(&cut), "times were in order");
        resegment(&records, &ResegmentOptions::cut_only(), 1);
    }
}

fn read(file: &[u8]) -> Option<Vec<OwnedRecord>> {
    let mut reader = CaptureReader::open(file).ok()?;
    let mut records = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(OwnedRecord::from(record)),
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(matches!(reader.next(), Ok(None)), "an error is told once");
                break;
            }
        }
    }
    assert_eq!(reader.packets(), records.len() as u64);
    Some(records)
}

fn write_pcapng(records: &[OwnedRecord]) {
    let mut writer = PcapngWriter::new(Vec::new()).expect("memory can be written to");
    let mut written = Vec::new();
    for record in records {
        let Ok(interface) = writer.interface("x", record.dlt) else {
            continue;
        };
        if writer
            .write(
                interface,
                record.time_ns,
                record.wire_len,
                &record.data,
                Some("é"),
            )
            .is_ok()
        {
            written.push(record);
        }
    }
    let file = writer.finish().expect("memory can be written to");
    same(&file, &written, 1);
}

fn write_pcap(records: &[OwnedRecord]) {
    let Some(dlt) = records.first().map(|record| record.dlt) else {
        return;
    };
    for (resolution, unit) in [(Resolution::Nano, 1), (Resolution::Micro, 1_000)] {
        let Ok(mut writer) = PcapWriter::new(Vec::new(), dlt, resolution) else {
            return;
        };
        let mut written = Vec::new();
        for record in records.iter().filter(|record| record.dlt == dlt) {
            if writer
                .write(record.time_ns, record.wire_len, &record.data)
                .is_ok()
            {
                written.push(record);
            }
        }
        let file = writer.finish().expect("memory can be written to");
        same(&file, &written, unit);
    }
}

fn same(file: &[u8], written: &[&OwnedRecord], unit: u64) {
    let again = read(file).expect("what was written is a capture");
    assert_eq!(again.len(), written.len(), "all that was written is read");
    for (again, record) in again.iter().zip(written) {
        assert_eq!(again.data, record.data);
        assert_eq!(again.wire_len, record.wire_len);
        assert_eq!(again.dlt, record.dlt);
        assert_eq!(again.time_ns, record.time_ns / unit * unit);
    }
}
