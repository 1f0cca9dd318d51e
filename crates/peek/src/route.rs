//! The route of a request: what requests have in common that are served by the same code, as far as the path tells.

/// Segments that count.
const SEGMENTS: usize = 3;
/// A longer one is no name.
const LONGEST: usize = 24;

/// The first segments of a path, where one that has a digit in it or is long, and so names one thing of many, is `*`, as is
/// all that follows the last of them.
pub(crate) fn route(path: &str) -> String {
    let Some(rest) = path.strip_prefix('/') else { return "/".to_owned() };
    let segments = rest.split('/').take(SEGMENTS + 1).enumerate();
    let folded = segments.map(|(at, segment)| if at < SEGMENTS && is_name(segment) { segment } else { "*" });
    folded.fold(String::new(), |route, segment| route + "/" + segment)
}

fn is_name(segment: &str) -> bool {
    segment.len() <= LONGEST && segment.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_digit())
}

/// Whether a path is the one given, or lies below it.
pub(crate) fn lies_at(path: &str, given: &str) -> bool {
    let given = given.trim_end_matches('/');
    path.strip_prefix(given).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_name_one_thing_of_many_are_one_route() {
        for (path, folded) in [
            ("/", "/"),
            ("", "/"),
            ("/cart", "/cart"),
            ("/user/17/edit", "/user/*/edit"),
            ("/user/18/edit", "/user/*/edit"),
            ("/a/b/c/d/e", "/a/b/c/*"),
            ("/static/3f2504e04f8911d39a0c0305e82c3301", "/static/*"),
            ("/caf\u{e9}/x", "/*/x"),
        ] {
            assert_eq!(route(path), folded, "{path}");
        }
    }

    #[test]
    fn a_route_is_given_as_a_path_with_all_below_it() {
        for (path, given, lies) in [
            ("/cart", "/cart", true),
            ("/cart/7", "/cart", true),
            ("/cart/7", "/cart/", true),
            ("/carts", "/cart", false),
            ("/x", "/", true),
            ("/x", "/x/y", false),
        ] {
            assert_eq!(lies_at(path, given), lies, "{path} {given}");
        }
    }
}
