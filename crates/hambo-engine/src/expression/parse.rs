//! From text to tape: a lexer and a Pratt parser that writes instructions as it reads.
//!
//! The text may come from anywhere, so its length and nesting are limited; every error names the byte at
//! which it was noticed and what would have been right there.

use super::Scope;
use super::functions::{FUNCTIONS, Function, nearest_function};
use super::instruction::{Binary, Input, Unary};
use super::tape::Builder;
use crate::{Error, Result};

/// Longest expression, in bytes.
pub(super) const MAX_LENGTH: usize = 16_384;
/// Deepest nesting of parentheses, calls, signs and powers: each level costs some hundred bytes of stack.
pub(super) const MAX_DEPTH: usize = 100;

// How tightly operators bind.
const OR: u8 = 1;
const AND: u8 = 2;
const COMPARISON: u8 = 3;
const SUM: u8 = 4;
const PRODUCT: u8 = 5;
const SIGN: u8 = 6;
const POWER: u8 = 7;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    Number(f32),
    Name(&'a str),
    Symbol(&'a str),
    End,
}

/// Writes the instructions of `text` and returns the one that is its value.
pub(super) fn parse(
    text: &str,
    state_dim: usize,
    action_dim: usize,
    scope: Scope,
    builder: &mut Builder,
) -> Result<usize> {
    if text.len() > MAX_LENGTH {
        let beginning: String = text.chars().take(40).collect();
        return Err(Error::Expression {
            text: beginning + "…",
            position: MAX_LENGTH,
            message: format!("{} bytes: an expression may have {MAX_LENGTH}", text.len()),
        });
    }
    let mut parser = Parser {
        text,
        state_dim,
        action_dim,
        scope,
        builder,
        token: Token::End,
        start: 0,
        end: 0,
        depth: 0,
    };
    parser.advance()?;
    let value = parser.expression(0)?;
    match parser.token {
        Token::End => Ok(value),
        _ => Err(parser.expected("an operator or the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    state_dim: usize,
    action_dim: usize,
    scope: Scope,
    builder: &'a mut Builder,
    /// The token to be read next, and the bytes it spans.
    token: Token<'a>,
    start: usize,
    end: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Reads operators as long as they bind at least as tightly as `minimum`.
    fn expression(&mut self, minimum: u8) -> Result<usize> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(self.start, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let mut left = self.operand()?;
        let mut after_comparison = false;
        while let Token::Symbol(symbol) = self.token {
            let Some(level) = level(symbol).filter(|&level| level >= minimum) else { break };
            if after_comparison && level == COMPARISON {
                let message =
                    "comparisons do not chain: write `x < y && y < z`, or use parentheses";
                return Err(self.error(self.start, message));
            }
            after_comparison = level == COMPARISON;
            self.advance()?;
            // Only the power groups to the right.
            let right = self.expression(if level == POWER { POWER } else { level + 1 })?;
            left = self.infix(symbol, left, right);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn infix(&mut self, symbol: &str, x: usize, y: usize) -> usize {
        let b = &mut *self.builder;
        match symbol {
            "+" => b.binary(Binary::Add, x, y),
            "-" => b.binary(Binary::Subtract, x, y),
            "*" => b.binary(Binary::Multiply, x, y),
            "/" => b.binary(Binary::Divide, x, y),
            "<" => b.binary(Binary::Less, x, y),
            "<=" => b.binary(Binary::LessOrEqual, x, y),
            ">" => b.binary(Binary::Less, y, x),
            ">=" => b.binary(Binary::LessOrEqual, y, x),
            "==" => b.binary(Binary::Equal, x, y),
            "!=" => {
                let equal = b.binary(Binary::Equal, x, y);
                b.unary(Unary::Not, equal)
            }
            "&&" => b.binary(Binary::And, x, y),
            "||" => b.binary(Binary::Or, x, y),
            _ => b.power(x, y),
        }
    }

    /// A number, variable, call, group, or one of these after a sign.
    fn operand(&mut self) -> Result<usize> {
        match self.token {
            Token::Number(value) => {
                self.advance()?;
                Ok(self.builder.constant(value))
            }
            Token::Name(name) => self.name(name),
            Token::Symbol("(") => {
                self.advance()?;
                let value = self.expression(0)?;
                self.take(")")?;
                Ok(value)
            }
            Token::Symbol(sign @ ("-" | "!")) => {
                self.advance()?;
                let value = self.expression(SIGN)?;
                Ok(self.builder.unary(if sign == "-" { Unary::Negate } else { Unary::Not }, value))
            }
            Token::Symbol(_) | Token::End => Err(self.expected("a value")),
        }
    }

    fn name(&mut self, name: &'a str) -> Result<usize> {
        let start = self.start;
        self.advance()?;
        let variable = match name {
            "s" => Some((Input::State, "state", self.state_dim, true)),
            "a" => Some((Input::Action, "action", self.action_dim, self.scope.action)),
            "n" => Some((Input::NextState, "next state", self.state_dim, self.scope.next_state)),
            _ => None,
        };
        if let Some((input, meaning, dim, allowed)) = variable {
            if !allowed {
                return Err(
                    self.error(start, format!("`{name}`, the {meaning}, cannot be used here"))
                );
            }
            self.take("[")?;
            let index = self.index(name, meaning, dim)?;
            self.take("]")?;
            return Ok(self.builder.input(input, index));
        }
        if name == "r" {
            if !self.scope.reward {
                return Err(self.error(start, "`r`, the learned reward, cannot be used here"));
            }
            let paid = [Input::NextState, Input::State]
                .map(|input| self.builder.input(input, self.state_dim));
            return Ok(self.builder.binary(Binary::Subtract, paid[0], paid[1]));
        }
        if name == "pi" {
            return Ok(self.builder.constant(std::f32::consts::PI));
        }
        if let Some(&(_, function)) = FUNCTIONS.iter().find(|(known, _)| *known == name) {
            let arguments = self.arguments()?;
            return self.call(start, name, function, &arguments);
        }
        let message = if self.token == Token::Symbol("(") {
            format!("unknown function `{name}`: did you mean `{}`?", nearest_function(name))
        } else {
            format!("unknown name `{name}`: expected s[i], a[i], n[i], r, pi or a function")
        };
        Err(self.error(start, message))
    }

    fn index(&mut self, name: &str, meaning: &str, dim: usize) -> Result<usize> {
        let written = &self.text[self.start..self.end];
        if written.is_empty() || !written.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.expected("a whole number"));
        }
        match written.parse::<usize>() {
            Ok(index) if index < dim => {
                self.advance()?;
                Ok(index)
            }
            _ => {
                let entries = match dim {
                    0 => "no entries".to_string(),
                    1 => format!("1 entry, {name}[0]"),
                    _ => format!("{dim} entries, {name}[0] to {name}[{}]", dim - 1),
                };
                Err(self
                    .error(self.start, format!("`{name}[{written}]`: the {meaning} has {entries}")))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<usize>> {
        self.take("(")?;
        let mut arguments = Vec::new();
        if self.token == Token::Symbol(")") {
            self.advance()?;
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression(0)?);
            match self.token {
                Token::Symbol(",") => self.advance()?,
                Token::Symbol(")") => {
                    self.advance()?;
                    return Ok(arguments);
                }
                _ => return Err(self.expected("`,` or `)`")),
            }
        }
    }

    fn call(
        &mut self,
        start: usize,
        name: &str,
        function: Function,
        arguments: &[usize],
    ) -> Result<usize> {
        let b = &mut *self.builder;
        let expected = match (function, arguments) {
            (Function::Unary(op), &[x]) => return Ok(b.unary(op, x)),
            (Function::Atan2, &[x, y]) => return Ok(b.binary(Binary::Atan2, x, y)),
            (Function::If, &[condition, x, y]) => return Ok(b.select(condition, x, y)),
            (Function::Clamp, &[x, low, high]) => {
                let above = b.binary(Binary::Maximum, x, low);
                return Ok(b.binary(Binary::Minimum, above, high));
            }
            (Function::Minimum, [first, rest @ ..]) if !rest.is_empty() => {
                return Ok(rest.iter().fold(*first, |x, &y| b.binary(Binary::Minimum, x, y)));
            }
            (Function::Maximum, [first, rest @ ..]) if !rest.is_empty() => {
                return Ok(rest.iter().fold(*first, |x, &y| b.binary(Binary::Maximum, x, y)));
            }
            // Squares and a root instead of a call: they vectorize and are shared with other terms. They
            // overflow beyond 10¹⁹, where no state of use lies.
            (Function::Hypot, [first, rest @ ..]) if !rest.is_empty() => {
                let mut sum = b.binary(Binary::Multiply, *first, *first);
                for &x in rest {
                    let square = b.binary(Binary::Multiply, x, x);
                    sum = b.binary(Binary::Add, sum, square);
                }
                return Ok(b.unary(Unary::Sqrt, sum));
            }
            (Function::Unary(_), _) => "1 argument",
            (Function::Atan2, _) => "2 arguments",
            (Function::Clamp | Function::If, _) => "3 arguments",
            (Function::Minimum | Function::Maximum | Function::Hypot, _) => "2 or more arguments",
        };
        Err(self.error(start, format!("`{name}` takes {expected}, found {}", arguments.len())))
    }

    fn take(&mut self, symbol: &str) -> Result<()> {
        match self.token {
            Token::Symbol(found) if found == symbol => self.advance(),
            _ => Err(self.expected(&format!("`{symbol}`"))),
        }
    }

    /// Reads the next token.
    fn advance(&mut self) -> Result<()> {
        let rest = self.text[self.end..].trim_ascii_start();
        self.start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            self.end = self.start;
            self.token = Token::End;
            return Ok(());
        };
        let (length, token) = if first.is_ascii_digit() || first == '.' {
            let length = number_length(rest.as_bytes());
            match rest[..length].parse::<f32>() {
                Ok(value) if value.is_finite() => (length, Token::Number(value)),
                Ok(_) => {
                    return Err(
                        self.error(self.start, format!("`{}` is too large", &rest[..length]))
                    );
                }
                Err(_) => {
                    return Err(
                        self.error(self.start, format!("`{}` is not a number", &rest[..length]))
                    );
                }
            }
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest
                .bytes()
                .position(|b| !(b.is_ascii_alphanumeric() || b == b'_'))
                .unwrap_or(rest.len());
            (length, Token::Name(&rest[..length]))
        } else if ["<=", ">=", "==", "!=", "&&", "||"].iter().any(|symbol| rest.starts_with(symbol))
        {
            (2, Token::Symbol(&rest[..2]))
        } else if "+-*/^<>!()[],".contains(first) {
            (1, Token::Symbol(&rest[..1]))
        } else if "=&|".contains(first) {
            return Err(self.error(
                self.start,
                format!("`{first}` is not an operator: write `{first}{first}`"),
            ));
        } else {
            return Err(self.error(self.start, format!("{first:?} has no meaning here")));
        };
        self.end = self.start + length;
        self.token = token;
        Ok(())
    }

    fn expected(&self, what: &str) -> Error {
        let found = match &self.text[self.start..self.end] {
            "" => "the end".to_string(),
            text => format!("`{text}`"),
        };
        self.error(self.start, format!("expected {what}, found {found}"))
    }

    fn error(&self, position: usize, message: impl Into<String>) -> Error {
        Error::Expression { text: self.text.to_string(), position, message: message.into() }
    }
}

fn level(symbol: &str) -> Option<u8> {
    match symbol {
        "||" => Some(OR),
        "&&" => Some(AND),
        "<" | "<=" | ">" | ">=" | "==" | "!=" => Some(COMPARISON),
        "+" | "-" => Some(SUM),
        "*" | "/" => Some(PRODUCT),
        "^" => Some(POWER),
        _ => None,
    }
}

/// Bytes of digits, a point, and an exponent. What they spell is left to the standard library to judge.
fn number_length(text: &[u8]) -> usize {
    let digits = |from: usize| {
        text[from..]
            .iter()
            .position(|b| !b.is_ascii_digit())
            .map_or(text.len(), |length| from + length)
    };
    let mut end = digits(0);
    if text.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        end += 1;
        if matches!(text.get(end), Some(b'+' | b'-')) {
            end += 1;
        }
        end = digits(end);
    }
    end
}
