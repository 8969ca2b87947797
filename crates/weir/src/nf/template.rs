//! Output of `weir nf` for templates.

use serde_json::{Value, json};
use weir_graph::{TemplateDescription, TemplateProcessor};

use super::wrap::wrapped;

/// The JSON that `weir nf list` prints for a template.
pub(super) fn summary(template: &TemplateDescription) -> Value {
    let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect::<Vec<String>>();
    json!({
        "name": template.name,
        "summary": template.summary,
        "template": template.file,
        "processors": names(&mut template.processors.iter().map(|p| &p.nf)),
        "labels": names(&mut template.labels.iter().map(|l| &l.name)),
    })
}

/// All of it in JSON.
pub(super) fn whole(template: &TemplateDescription) -> Value {
    let mut value = json!(template);
    value["template"] = json!(template.file);
    if let Value::Object(keys) = &mut value {
        keys.remove("file");
    }
    value
}

/// The manual page of a template.
pub(super) fn page(template: &TemplateDescription) -> String {
    let mut page = format!(
        "{}: {}\n\n{}\n",
        template.name,
        template.summary,
        wrapped(&template.manual)
    );
    page.push_str(&format!(
        "A template ({}). Its processors, as a chain would have them:\n\n",
        template.file
    ));
    let width = |of: &dyn Fn(&TemplateProcessor) -> usize| {
        template.processors.iter().map(of).max().unwrap_or(0)
    };
    let name = width(&|p| p.name.len());
    let nf = width(&|p| p.nf.len());
    for processor in &template.processors {
        let links: Vec<String> = processor
            .links
            .iter()
            .map(|link| format!("{} → {}", link.label, link.to))
            .collect();
        let line = format!(
            "  {:<name$}  {:<nf$}  {}",
            processor.name,
            processor.nf,
            links.join(", ")
        );
        page.push_str(line.trim_end());
        page.push('\n');
        if let Some(when) = &processor.when {
            page.push_str(&format!("    if {when}\n"));
        }
        if !processor.settings.is_empty() {
            page.push_str(&format!("    {}\n", processor.settings));
        }
    }
    if !template.labels.is_empty() {
        page.push_str("\nLabels\n");
    }
    for label in &template.labels {
        page.push_str(&format!("  {}\n", label.name));
        indented(&mut page, &label.description);
    }
    page.push_str("\nSettings\n");
    for setting in &template.settings {
        let default = match &setting.default {
            None if setting.required => " (required)".to_owned(),
            None => String::new(),
            Some(value) => format!(" (default {value})"),
        };
        page.push_str(&format!("  {}: {}{default}\n", setting.name, setting.kind));
        indented(&mut page, &setting.description);
    }
    if template.settings.is_empty() {
        page.push_str("  none\n");
    }
    page
}

fn indented(page: &mut String, text: &str) {
    for line in wrapped(text).lines().filter(|line| !line.is_empty()) {
        page.push_str(&format!("      {line}\n"));
    }
}
