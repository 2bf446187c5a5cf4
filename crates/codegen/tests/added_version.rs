//! A message, and a version of it, is added by one JSON file: an invented one is generated, compiled with the primitives of
//! `ottla-protocol` and run, then its file alone is edited, and its new version is spoken too.

// What is outside the test function is still test code.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use ottla_codegen::{emit, resolve, schema};
use serde_json::{Value, json};

/// Reads bytes as a version of the message, shows it, and writes it again. It names no field and no version.
const PROGRAM: &str = r#"
#![allow(warnings)]
#[path = "WIRE"]
pub mod wire;
pub mod messages {
    use crate::wire as w;
    include!("messages.rs");
}
use wire::Message;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let version = arguments[0].parse().unwrap();
    let hex = &arguments[1];
    let bytes: Vec<u8> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
    let mut input = wire::Reader::new(bytes.into());
    let message = messages::InventedRequest::decode(version, &mut input).unwrap();
    input.finish().unwrap();
    let mut out = wire::Writer::new();
    message.encode(version, &mut out).unwrap();
    let written: String = out.finish().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{written} {message:?}");
}
"#;

/// A manifest with those dependencies of `ottla-protocol` that its primitives name.
fn manifest(root: &Path) -> String {
    let section = |file: &str, name: &str| -> Vec<String> {
        let text = fs::read_to_string(root.join(file)).unwrap();
        let lines = text.lines().skip_while(|line| *line != name).skip(1);
        let lines = lines.take_while(|line| !line.starts_with('['));
        lines.map(str::to_owned).collect()
    };
    let wire: String = fs::read_dir(root.join("crates/protocol/src/wire"))
        .unwrap()
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let mut dependencies = section("crates/protocol/Cargo.toml", "[dependencies]");
    dependencies.retain(|line| {
        let end = line.find(['.', ' ']).unwrap_or(0);
        end > 0 && wire.contains(&format!("{}::", line[..end].replace('-', "_")))
    });
    format!(
        "[package]\nname = \"added-version\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n{}\n\
         [workspace]\n[workspace.dependencies]\n{}\n",
        dependencies.join("\n"),
        section("Cargo.toml", "[workspace.dependencies]").join("\n")
    )
}

/// The folder of the invented crate, which outlives the test so that its dependencies are built once.
struct Crate(PathBuf);

impl Crate {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("added_version");
        fs::create_dir_all(folder.join("src")).unwrap();
        fs::create_dir_all(folder.join("schemas/request")).unwrap();
        let wire = root.join("crates/protocol/src/wire/mod.rs");
        let program = PROGRAM.replace("WIRE", wire.to_str().unwrap());
        fs::write(folder.join("src/main.rs"), program).unwrap();
        fs::write(folder.join("Cargo.toml"), manifest(&root)).unwrap();
        // The releases of the workspace, which are on this machine.
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        Self(folder)
    }

    /// Writes the one file, generates, and builds.
    fn built(&self, file: &Value) {
        let schemas = self.0.join("schemas");
        let text = file.to_string();
        fs::write(schemas.join("request/InventedRequest.json"), text).unwrap();
        let messages = resolve::resolve(&schema::load(&schemas).unwrap()).unwrap();
        fs::write(self.0.join("src/messages.rs"), emit::messages(&messages)).unwrap();
        let build = Command::new(env::var_os("CARGO").unwrap())
            .args(["build", "--quiet", "--offline", "--target-dir", "target"])
            .current_dir(&self.0)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&build.stderr);
        assert!(build.status.success(), "{errors}");
    }

    /// What comes of bytes of a version: the bytes that are written again, and what was read.
    fn spoken(&self, version: i16, hex: &str) -> (String, String) {
        let run = Command::new(self.0.join("target/debug/added-version"))
            .args([&version.to_string(), hex])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{errors}");
        let line = String::from_utf8(run.stdout).unwrap();
        let (hex, read) = line.trim_end().split_once(' ').unwrap();
        (hex.to_owned(), read.to_owned())
    }
}

#[test]
fn a_version_is_added_by_one_json_file() {
    let invented = Crate::new();
    let mut file = json!({
        "name": "InventedRequest", "type": "request", "apiKey": 7000, "listeners": ["broker"],
        "validVersions": "0", "flexibleVersions": "none", "fields": [
            {"name": "Name", "type": "string", "versions": "0+"},
            {"name": "Ids", "type": "[]int32", "versions": "0+"},
        ]
    });
    invented.built(&file);
    // "abc" after its length, then two numbers after their count.
    let version_0 = "0003616263 00000002 00000001 ffffffff".replace(' ', "");
    let (written, read) = invented.spoken(0, &version_0);
    assert_eq!(written, version_0);
    assert!(read.contains("abc") && !read.contains("epoch"), "{read}");

    file["validVersions"] = json!("0-1");
    file["flexibleVersions"] = json!("1+");
    file["fields"].as_array_mut().unwrap().extend([
        json!({"name": "Epoch", "type": "int64", "versions": "1+", "default": -1, "ignorable": true}),
        json!({"name": "Note", "type": "string", "versions": "1+", "nullableVersions": "1+", "tag": 0,
            "taggedVersions": "1+", "default": null}),
    ]);
    invented.built(&file);
    // Lengths plus one, the new number, and one tagged field: its tag, its size, "hi" after its length plus one.
    let version_1 = "04616263 03 00000001 ffffffff 0000000000000005 01 00 03 036869";
    let version_1 = version_1.replace(' ', "");
    let (written, read) = invented.spoken(1, &version_1);
    assert_eq!(written, version_1);
    assert!(read.contains("epoch: 5"), "{read}");
    assert!(read.contains("hi"), "{read}");
    // The version that was there is what it was.
    let (written, read) = invented.spoken(0, &version_0);
    assert_eq!(written, version_0);
    assert!(read.contains("epoch: -1"), "{read}");
    assert!(read.contains("note: None"), "{read}");
}
