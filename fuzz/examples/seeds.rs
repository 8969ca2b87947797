//! Writes what fuzzing starts from to `corpus/TARGET/`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let seeds = weir_fuzz::seeds::seeds();
    for (i, (target, bytes)) in seeds.iter().enumerate() {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("seed-{i:05}")), bytes)?;
    }
    println!("{} seeds in {}", seeds.len(), corpus.display());
    Ok(())
}
