//! `weir gen`: generated traffic into a capture file.

use serde_json::json;
use weir_io::port::{PortSpec, Received};
use weir_packet::{FramePool, MemoryLayout, PacketMemory, Side};

use crate::args::{Format, Gen};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

pub(crate) fn generate(args: &Gen) -> Outcome {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let outside = |error: weir_io::port::PortError| Failure::outside(error.to_string());
    let settings = args.spec.strip_prefix("gen:").unwrap_or(&args.spec);
    let (_, from) = PortSpec::parse(&format!("gen:{settings}")).map_err(|e| usage(&e))?;
    let (_, to) = PortSpec::parse(&args.out).map_err(|e| usage(&e))?;
    let mut input = from.open_input(0, Side::Inside).map_err(outside)?;
    let mut port = to.open_output(0).map_err(outside)?;
    let memory = PacketMemory::new(MemoryLayout::default(), weir_io::advise_large_pages);
    let Some(mut pool) = FramePool::new(memory) else {
        return Err(Failure::outside("packet memory was taken twice"));
    };
    let mut frames = Vec::with_capacity(64);
    loop {
        let received = input.receive(&mut pool, &mut frames, 64).map_err(outside)?;
        port.send(&mut pool, &mut frames).map_err(outside)?;
        if received == Received::End {
            break;
        }
    }
    port.finish(&mut pool).map_err(outside)?;
    let counters = port.counters();
    match args.output {
        Format::Json => {
            output::json(
                &json!({"packets": counters.packets, "bytes": counters.bytes, "file": args.out}),
            )?;
        }
        Format::Text => output::line(&format!(
            "{}: {} packets, {} bytes",
            args.out, counters.packets, counters.bytes
        ))?,
    }
    Ok(Exit::Done)
}
