//! The functions that make the response of a request that is refused.

use super::code::{Code, Condition};
use super::codec::{condition, lines, literal, used};
use crate::refusal::{FieldValue, Plan, RequestValue, Step};
use crate::resolve::{Field, Message, struct_name};
use crate::schema::Versions;

/// One implementation of `Refuse` a request, and the way from an API to it.
pub fn refusals(plans: &[Plan<'_>]) -> String {
    let mut c = Code::new();
    for plan in plans {
        let (request, response) = (&plan.request.name, &plan.response.name);
        let emitter = Emitter {
            response: plan.response,
        };
        let mut body = Code::new();
        emitter.steps(&mut body, &plan.steps, plan.request.versions, 0);
        let body = body.finish();
        c.line(&format!("impl Refuse for messages::{request} {{"));
        c.line(&format!(
            "fn error_response(&self, {}: i16, {}: &Refusal) -> messages::{response} {{",
            used("version", &body, false),
            used("refusal", &body, false)
        ));
        c.line(&format!(
            "let mut response = messages::{response}::default();"
        ));
        lines(&mut c, &body);
        c.line("response");
        c.line("}");
        c.line("}");
    }
    c.line("/// Calls a visitor with the request type of an API.");
    c.line("pub(super) fn visit<V: Visitor>(api: ApiKey, visitor: V) -> V::Output {");
    c.line("match api {");
    for plan in plans {
        let name = &plan.request.name;
        let api = name.strip_suffix("Request").unwrap_or(name);
        c.line(&format!(
            "ApiKey::{api} => visitor.visit::<messages::{name}>(),"
        ));
    }
    c.line("}");
    c.line("}");
    c.finish()
}

struct Emitter<'a> {
    response: &'a Message,
}

impl Emitter<'_> {
    /// Sets the fields of the local `response`, at this depth of arrays in the request.
    fn steps(&self, c: &mut Code, steps: &[Step<'_>], reached: Versions, depth: usize) {
        for step in steps {
            c.when(&condition(step.versions, reached), |c| {
                self.step(c, step, depth);
            });
        }
    }

    fn step(&self, c: &mut Code, step: &Step<'_>, depth: usize) {
        let (field, versions) = (step.field, step.versions);
        let value = match &step.value {
            FieldValue::Code => "refusal.code.0".to_owned(),
            FieldValue::Throttle => "refusal.throttle_time_ms".to_owned(),
            FieldValue::Message => copied("refusal.message", true, field, versions),
            FieldValue::Value(value) => literal(value, field),
            FieldValue::Request(RequestValue { depth, field: None }) => {
                copied(&local(*depth), false, field, versions)
            }
            FieldValue::Request(RequestValue {
                depth,
                field: Some(asked),
            }) => {
                let place = format!("{}.{}", local(*depth), asked.name);
                copied(&place, asked.optional, field, versions)
            }
            FieldValue::Each(each) => {
                c.line(&format!("response.{} = {{", field.name));
                c.line("let mut all = Vec::new();");
                for (way, steps) in each {
                    self.elements(c, field, way, steps, versions, depth);
                }
                c.line(if field.optional { "Some(all)" } else { "all" });
                c.line("};");
                return;
            }
        };
        c.line(&format!("response.{} = {value};", field.name));
    }

    /// Adds an element to the local `all` for each that is found on a way through the arrays of the request.
    fn elements(
        &self,
        c: &mut Code,
        field: &Field,
        way: &[&Field],
        steps: &[Step<'_>],
        versions: Versions,
        depth: usize,
    ) {
        let mut body = Code::new();
        self.steps(&mut body, steps, versions, depth + way.len());
        let body = body.finish();
        let innermost = depth + way.len();
        for (array, depth) in way.iter().zip(depth..) {
            let outer = local(depth);
            let inner = used(&local(depth + 1), &body, depth + 1 < innermost);
            if array.optional {
                c.line(&format!(
                    "for {inner} in {outer}.{}.iter().flatten() {{",
                    array.name
                ));
            } else {
                c.line(&format!("for {inner} in &{outer}.{} {{", array.name));
            }
        }
        let element = struct_name(&field.kind).unwrap_or_default();
        c.line(&format!(
            "let mut response = messages::{}::{element}::default();",
            self.response.module
        ));
        lines(c, &body);
        c.line("all.push(response);");
        for _ in way {
            c.line("}");
        }
    }
}

/// The local with the element of the request at this depth of arrays.
fn local(depth: usize) -> String {
    match depth {
        0 => "self".to_owned(),
        depth => format!("asked{depth}"),
    }
}

/// The value of a place that may be optional, as the value of a field.
fn copied(place: &str, optional: bool, field: &Field, versions: Versions) -> String {
    let plain = if optional {
        format!("{place}.clone().unwrap_or_default()")
    } else {
        format!("{place}.clone()")
    };
    match (
        field.optional,
        optional,
        condition(field.nullable, versions),
    ) {
        (false, _, _) => plain,
        (true, false, _) | (true, true, Condition::Never) => format!("Some({plain})"),
        (true, true, Condition::Always) => format!("{place}.clone()"),
        (true, true, Condition::If(text)) => {
            format!("if {text} {{ {place}.clone() }} else {{ Some({plain}) }}")
        }
    }
}
