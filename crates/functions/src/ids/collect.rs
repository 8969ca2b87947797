//! Rules of several texts as one set.

use std::collections::BTreeMap;

use weir_signatures::Rule;

/// Rules of several texts, each (gid, sid) once: of several revisions in
/// different texts the highest counts.
#[derive(Debug, Default)]
pub(super) struct Collected {
    rules: Vec<Rule>,
    /// (gid, sid) → place in `rules`, and the name of the text.
    places: BTreeMap<(u32, u32), (usize, String)>,
}

/// A rule that another revision of it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Name of its text.
    pub text: String,
    /// Its line, counted from 1.
    pub line: usize,
    /// Its number.
    pub sid: u32,
}

impl Collected {
    /// Adds a rule of the text called `text`; gives the older revision where
    /// there are two now.
    ///
    /// # Errors
    ///
    /// That the rule is here in the same revision, and where.
    pub(super) fn add(&mut self, rule: Rule, text: &str) -> Result<Option<Replaced>, String> {
        let key = (rule.gid, rule.sid);
        let Some((place, other)) = self.places.get_mut(&key) else {
            self.places.insert(key, (self.rules.len(), text.to_owned()));
            self.rules.push(rule);
            return Ok(None);
        };
        let Some(known) = self.rules.get_mut(*place) else {
            return Ok(None);
        };
        if known.rev == rule.rev {
            return Err(format!(
                "gid {}, sid {}, rev {} is already used in {other}, line {}",
                rule.gid, rule.sid, rule.rev, known.line
            ));
        }
        let replaced = |text: String, rule: &Rule| Replaced {
            text,
            line: rule.line,
            sid: rule.sid,
        };
        if rule.rev < known.rev {
            return Ok(Some(replaced(text.to_owned(), &rule)));
        }
        let older = core::mem::replace(known, rule);
        let older_text = core::mem::replace(other, text.to_owned());
        Ok(Some(replaced(older_text, &older)))
    }

    /// The rules, each with the name of its text.
    pub(super) fn with_texts(&mut self) -> impl Iterator<Item = (&mut Rule, &str)> {
        let places = &self.places;
        self.rules.iter_mut().map(|rule| {
            let place = places.get(&(rule.gid, rule.sid));
            (rule, place.map_or("", |(_, text)| text.as_str()))
        })
    }

    /// Takes a rule away: its line, and the name of its text.
    pub(super) fn remove(&mut self, key: (u32, u32)) -> Option<(usize, String)> {
        let (_, text) = self.places.remove(&key)?;
        let place = self
            .rules
            .iter()
            .position(|rule| (rule.gid, rule.sid) == key)?;
        let rule = self.rules.remove(place);
        for (behind, _) in self.places.values_mut().filter(|(other, _)| *other > place) {
            *behind -= 1;
        }
        Some((rule.line, text))
    }

    /// The rules, in the order in which they came.
    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules, in the order in which they came.
    pub(super) fn into_rules(self) -> Vec<Rule> {
        self.rules
    }
}
