//! Serves a broker until its standard input ends: `cargo run --example serve -- PORT [FOLDER] [NAME=VALUE...]`.

use std::io::Read;
use std::path::PathBuf;

use ottla_broker::{Broker, BrokerConfig, EventSink};

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = BrokerConfig {
        events: EventSink::new(|event| eprintln!("{event}")),
        ..BrokerConfig::default()
    };
    config.port = arguments.next().ok_or("a port is wanted")?.parse()?;
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, value)) => config.properties.push((name.to_owned(), value.to_owned())),
            None => config.data_dir = Some(PathBuf::from(argument)),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let broker = runtime.block_on(Broker::start(config))?;
    println!("{}", broker.bootstrap());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(runtime.block_on(broker.stop())?)
}
