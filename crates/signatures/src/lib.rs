//! The rule language of Suricata and Snort: parser, typed tree, matcher.
