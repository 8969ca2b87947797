//! The templates that a load may use, read and checked.

use weir_nf::host::Kind;

use crate::diagnostic::{Report, Texts};
use crate::raw::RawEntry;
use crate::template::raw::{self, Template};
use crate::template::{SHIPPED, Templates, shipped_file};

/// Templates by name. Those that come with weir are read when they are named.
#[derive(Debug, Default)]
pub(crate) struct Library {
    list: Vec<Template>,
    /// Those that come with weir: name, text in the report.
    shipped: Vec<(&'static str, u32)>,
    more: Vec<u32>,
    /// First text of a template.
    first: u32,
    incomplete: bool,
}

impl Library {
    /// Adds the templates' texts to those of a load.
    pub(crate) fn texts(templates: &Templates, kinds: &[Kind], texts: &mut Texts) -> Library {
        let mut library = Library {
            first: texts.count(),
            ..Library::default()
        };
        let taken = |name: &str| kinds.iter().any(|kind| kind.descriptor.name == name);
        if templates.shipped {
            for (name, text) in SHIPPED.iter().filter(|(name, _)| !taken(name)) {
                let text = texts.add(shipped_file(name), (*text).to_owned());
                library.shipped.push((name, text));
            }
        }
        for more in &templates.more {
            let text = texts.add(more.file.clone(), more.text.clone());
            library.more.push(text);
        }
        library
    }

    /// True if some template could not be read: an unknown name may be its.
    pub(crate) const fn incomplete(&self) -> bool {
        self.incomplete
    }

    /// The first text of a template; all behind it are templates', too.
    pub(crate) fn first_text(&self) -> u32 {
        self.first
    }

    /// Reads all templates beside those that come with weir, and of these the
    /// ones that are named by `entries` or by a template. False where something
    /// is wrong with one; what those say that were read is not checked.
    pub(crate) fn read<'e>(
        &mut self,
        entries: impl Iterator<Item = &'e RawEntry>,
        kinds: &[Kind],
        report: &mut Report<'_>,
    ) -> bool {
        let before = report.errors();
        if let Some(text) = self.more.get(Templates::MOST) {
            report.error(
                crate::diagnostic::Span::start_of(*text),
                format!("more than {} templates", Templates::MOST),
            );
            return false;
        }
        for text in core::mem::take(&mut self.more) {
            match raw::parse(text, report) {
                Some(template) => self.add(template, kinds, report),
                None => self.incomplete = true,
            }
        }
        let mut wanted: Vec<String> = entries.map(|entry| entry.kind.clone()).collect();
        let of_templates = self.list.iter().flat_map(|template| &template.entries);
        wanted.extend(of_templates.map(|entry| entry.kind.clone()));
        while let Some(name) = wanted.pop() {
            let Some(place) = self.shipped.iter().position(|(known, _)| *known == name) else {
                continue;
            };
            let (_, text) = self.shipped.swap_remove(place);
            if let Some(template) = raw::parse(text, report) {
                wanted.extend(template.entries.iter().map(|entry| entry.kind.clone()));
                self.list.push(template);
            }
        }
        report.errors() == before
    }

    /// Reads all of them, as [`Library::read`] does.
    pub(crate) fn read_all(&mut self, kinds: &[Kind], report: &mut Report<'_>) -> bool {
        let mut all = Vec::new();
        for (_, text) in core::mem::take(&mut self.shipped) {
            all.extend(raw::parse(text, report));
        }
        let names = self.more.clone();
        // Names of the shipped ones are known while the others are added.
        self.list = all;
        self.more = names;
        self.read(core::iter::empty(), kinds, report)
    }

    fn add(&mut self, template: Template, kinds: &[Kind], report: &mut Report<'_>) {
        let name = &template.name;
        let shipped = SHIPPED.iter().any(|(known, _)| known == name)
            && (self.shipped.iter().any(|(known, _)| known == name)
                || self.list.iter().any(|known| known.name == *name));
        if kinds.iter().any(|kind| kind.descriptor.name == name) {
            report.error_help(
                template.name_span,
                format!("`{name}` is the name of a function"),
                "give the template another name",
            );
        } else if shipped {
            report.error_help(
                template.name_span,
                format!("`{name}` is a template that comes with weir"),
                "give this one another name",
            );
        } else if let Some(first) = self.list.iter().find(|other| other.name == *name) {
            let first = report.texts.line(first.name_span);
            report.error_help(
                template.name_span,
                format!("the template `{name}` is here twice"),
                format!("the first one is at {first}: give each a name of its own"),
            );
        } else {
            self.list.push(template);
        }
    }

    /// The template called `name`.
    pub(crate) fn find(&self, name: &str) -> Option<&Template> {
        self.list.iter().find(|template| template.name == name)
    }

    /// Those that were read.
    pub(crate) fn list(&self) -> &[Template] {
        &self.list
    }

    /// Names of all, read or not.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let read = self.list.iter().map(|template| template.name.as_str());
        read.chain(self.shipped.iter().map(|(name, _)| *name))
    }
}
