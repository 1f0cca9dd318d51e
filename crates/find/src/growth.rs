//! The routes that leave something behind: what the workers have counted (`wire`'s `growth`), summed up and ranked.

use std::collections::BTreeMap;

use howdah_wire::Growth;

use crate::leaks::Route;

/// The name of all routes that have no cell of their own.
const OTHER: &str = "other";
/// Requests of a route, in the newer half, below which nothing is said of it.
const FEWEST: u64 = 16;
/// Values a request below which it may be chance: a leak in every tenth request is seen.
const LEAST_VALUES: f64 = 0.1;
/// Bytes a request, and in all, below which it may be chance: the kernel gives memory by pages.
const LEAST_BYTES: f64 = 64.0;
const LEAST_IN_ALL: i64 = 64 * 1024;

/// The routes that leave something behind in the newer half of their requests, the worst first. Each cell is a name, what
/// all requests have left behind, and what those of the newer half have.
pub fn growing(cells: impl IntoIterator<Item = (Vec<u8>, Growth, Growth)>) -> Vec<Route> {
    // By what they are shown as, so that none is there twice: metrics may not.
    let mut sums: BTreeMap<String, Growth> = BTreeMap::new();
    for (name, _, newer) in cells {
        let sum = sums.entry(shown(&name)).or_default();
        *sum = sum.and(newer);
    }
    let mut routes: Vec<Route> =
        sums.into_iter().filter(|(_, growth)| grows(growth)).map(|it| route(it.0, &it.1)).collect();
    routes.sort_by(|one, other| badness(other).total_cmp(&badness(one)));
    routes
}

fn values(growth: &Growth) -> f64 {
    growth.values as f64 / growth.requests.max(1) as f64
}

fn bytes(growth: &Growth) -> Option<f64> {
    (growth.measured > 0).then(|| growth.bytes as f64 / growth.measured as f64)
}

fn grows(growth: &Growth) -> bool {
    let by_bytes = growth.bytes >= LEAST_IN_ALL && bytes(growth).is_some_and(|bytes| bytes >= LEAST_BYTES);
    growth.requests >= FEWEST && (values(growth) >= LEAST_VALUES || growth.measured >= FEWEST && by_bytes)
}

fn shown(name: &[u8]) -> String {
    if name.is_empty() { OTHER.into() } else { String::from_utf8_lossy(name).into_owned() }
}

fn route(route: String, growth: &Growth) -> Route {
    Route { route, requests: growth.requests, values: values(growth), bytes: bytes(growth) }
}

/// A value is some 60 bytes where nobody has measured.
fn badness(route: &Route) -> f64 {
    route.bytes.unwrap_or_default().max(route.values * 60.0) * route.requests as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(
        name: impl Into<Vec<u8>>,
        requests: u64,
        values: i64,
        measured: u64,
        bytes: i64,
    ) -> (Vec<u8>, Growth, Growth) {
        (name.into(), Growth::default(), Growth { requests, values, measured, bytes })
    }

    #[test]
    fn routes_that_grow_are_ranked_over_all_workers() {
        let cells = [
            cell("/quiet", 1000, 3, 100, 4096),
            cell("/values", 50, 200, 0, 0),
            cell("/values", 50, 200, 0, 0),
            cell("/string", 100, 0, 100, 1 << 20),
            cell("/few", 3, 900, 3, 1 << 20),
            cell("/shrinks", 100, -900, 100, -(1 << 20)),
            cell("", 100, 20, 0, 0),
        ];
        let found: Vec<_> = growing(cells).into_iter().map(|it| (it.route, it.requests, it.values)).collect();
        let expected = [("/string", 100, 0.0), ("/values", 100, 4.0), ("other", 100, 0.2)]
            .map(|it| (it.0.to_owned(), it.1, it.2));
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_shown_alike_is_one_route() {
        let cells = [cell("", 50, 100, 0, 0), cell("other", 50, 100, 0, 0)];
        let odd = [cell([b'/', 0xff], 50, 100, 0, 0), cell([b'/', 0xfe], 50, 100, 0, 0)];
        let found: Vec<_> =
            growing(cells.into_iter().chain(odd)).into_iter().map(|it| (it.route, it.requests)).collect();
        assert_eq!(found, [("/\u{fffd}".to_owned(), 100), ("other".to_owned(), 100)]);
    }
}
