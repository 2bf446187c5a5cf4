//! Writes the seeds of every target to files, for libFuzzer: `seeds FOLDER` fills `FOLDER/TARGET/`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os()
        .nth(1)
        .ok_or_else(|| std::io::Error::other("usage: seeds FOLDER"))?;
    for target in ottla_fuzz::TARGETS {
        let folder = Path::new(&folder).join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("{number:05}")), seed)?;
        }
    }
    Ok(())
}
