//! Chain files of weir: from YAML to a checked plan.
