//! .NET: a solution or a project file.

use super::{Detected, Parallel, Refusal, Tool, with_filter};
use crate::project::directory::Directory;
use crate::project::filter;
use buildpool_protocol::shell::quoted;

struct Dotnet;

pub(super) fn detect(directory: &Directory<'_>) -> Option<Detected> {
    let marker = [".sln", ".slnx", ".csproj", ".fsproj", ".vbproj"]
        .iter()
        .find_map(|suffix| directory.ending_in(&[suffix]).first().map(|name| (*name).to_owned()))?;
    Some(Detected::new(Dotnet, marker))
}

/// Escapes the operators of a filter expression (dotnet-test(1), "Filter option details"). The names of tests
/// with parameters have some.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '\\' | '(' | ')' | '!') {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

impl Tool for Dotnet {
    fn test(&self, filter: Option<&str>, _: Parallel) -> Result<String, Refusal> {
        // An expression of `--filter` has an operator; a plain text is compared with the full name of each test.
        let form = |filter: &str| match filter.contains(['=', '~', '|', '&']) {
            true => filter.to_owned(),
            false => {
                let name = filter::class_of_file(filter, &[".cs", ".fs", ".vb"]).unwrap_or(filter);
                format!("FullyQualifiedName~{}", escaped(name))
            }
        };
        Ok(with_filter("dotnet test", "--filter ", filter.map(form).as_deref()))
    }

    fn build(&self, target: Option<&str>, release: bool, _: Parallel) -> Result<String, Refusal> {
        let configuration = if release { " --configuration Release" } else { "" };
        let project = target.map(|target| format!(" {}", quoted(target))).unwrap_or_default();
        Ok(format!("dotnet build{project}{configuration}"))
    }
}
