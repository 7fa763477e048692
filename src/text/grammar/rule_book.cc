// See rule_book.h. Parts have lower numbers than what they are parts of, and rules are settled with a stack of their
// own, so only groups in groups recurse, which notations bound.
#include "text/grammar/rule_book.h"

#include "text/grammar/rx_text.h"

namespace quire::grammar {

namespace {
constexpr size_t kManyLiterals = 4;  // from here on as a trie: a step then looks at one branch and not at each
constexpr uint32_t kInline = 16;     // counts up to here are written out, larger ones are counted loops
}  // namespace

RuleBook::Expr RuleBook::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Expr>(nodes_.size()) - 1;
}

RuleBook::Expr RuleBook::text(Rx rx) {
  Node n{Kind::text};
  n.rx = rx;
  n.regular = true;
  return add(std::move(n));
}

RuleBook::Expr RuleBook::literal(RxStore& rx, std::string_view bytes) {
  const Expr e = text(rx.literal(bytes));
  nodes_[e].literal = true;
  nodes_[e].name = bytes;
  return e;
}

RuleBook::Expr RuleBook::reference(std::string_view name, size_t offset) {
  Node n{Kind::reference};
  n.name = name;
  n.offset = offset;
  return add(std::move(n));
}

RuleBook::Expr RuleBook::sequence(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  Node n{Kind::sequence};
  n.parts = std::move(parts);
  return add(std::move(n));
}

RuleBook::Expr RuleBook::choice(std::vector<Expr> parts) {
  if (parts.size() == 1) return parts[0];
  Node n{Kind::choice};
  n.parts = std::move(parts);
  return add(std::move(n));
}

RuleBook::Expr RuleBook::repeat(Expr what, uint32_t min, uint32_t max) {
  Node n{Kind::repeat};
  n.parts = {what};
  n.min = min;
  n.max = max;
  return add(std::move(n));
}

RuleBook::Expr RuleBook::except(Expr what, Expr but, size_t offset) {
  Node n{Kind::except};
  n.parts = {what, but};
  n.offset = offset;
  return add(std::move(n));
}

tl::unexpected<Error> RuleBook::error(size_t offset, std::string_view what) const {
  return fail(Code::invalid, notation_ + ": " + std::string(what) + " at offset " + std::to_string(offset));
}

Status RuleBook::define(std::string_view name, Expr body, size_t offset) {
  const auto [it, fresh] = rules_.emplace(name, Named{body});
  if (!fresh) return error(offset, "rule \"" + std::string(name) + "\" is there twice");
  return {};
}

// Whether all of `e` is regular as far as is known; its expression is worked out then.
bool RuleBook::fold(RxStore& rx, Expr e) {
  Node& n = nodes_[e];
  if (n.regular) return true;
  std::vector<Rx> parts;
  for (const Expr p : n.parts) {
    if (!nodes_[p].regular) return false;
    parts.push_back(nodes_[p].rx);
  }
  switch (n.kind) {
    case Kind::text: break;
    case Kind::reference: {
      const Named& named = rules_.find(n.name)->second;
      if (named.state != Named::State::regular) return false;
      n.rx = nodes_[named.body].rx;
      break;
    }
    case Kind::sequence:
      n.rx = RxStore::kEmpty;
      for (size_t i = parts.size(); i-- > 0;) n.rx = rx.cat(parts[i], n.rx);
      break;
    case Kind::choice: {
      std::vector<std::string> literals;
      for (const Expr p : n.parts) {
        if (nodes_[p].literal) literals.push_back(nodes_[p].name);
      }
      if (literals.size() >= kManyLiterals) {
        parts.assign(1, one_of_texts(rx, std::move(literals)));
        for (const Expr p : n.parts) {
          if (!nodes_[p].literal) parts.push_back(nodes_[p].rx);
        }
      }
      n.rx = rx.alt(std::move(parts));
      break;
    }
    case Kind::repeat: n.rx = rx.repeat(parts[0], n.min, n.max); break;
    case Kind::except: n.rx = rx.both({parts[0], rx.negate(parts[1])}); break;
  }
  n.regular = true;
  return true;
}

// All parts of a rule whose references are settled, inner ones first.
Status RuleBook::settle_rule(RxStore& rx, Named& named) {
  std::vector<Expr> order{named.body};
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<Expr>& parts = nodes_[order[i]].parts;
    order.insert(order.end(), parts.begin(), parts.end());
  }
  for (size_t i = order.size(); i-- > 0;) {
    const bool regular = fold(rx, order[i]);
    const Node& n = nodes_[order[i]];
    if (!regular && n.kind == Kind::except)
      return error(n.offset, "what is taken away, and from what, must not be recursive");
  }
  named.state = nodes_[named.body].regular ? Named::State::regular : Named::State::rule;
  if (rx.exhausted()) return fail(Code::exhausted, notation_ + ": it takes more memory to compile than allowed");
  return {};
}

// Depth first along references, so that a rule is settled behind those that it refers to. One that is reached while it
// is open is recursive, and so no lexeme.
Status RuleBook::settle(RxStore& rx, std::string_view root) {
  struct Open {
    Named* named;
    std::vector<Expr> references;
    size_t next = 0;
  };
  std::vector<Open> open;
  const auto enter = [&](Named& named) {
    named.state = Named::State::open;
    Open o{&named, {}};
    std::vector<Expr> todo{named.body};
    while (!todo.empty()) {
      const Node& n = nodes_[todo.back()];
      if (n.kind == Kind::reference) o.references.push_back(todo.back());
      todo.pop_back();
      todo.insert(todo.end(), n.parts.begin(), n.parts.end());
    }
    open.push_back(std::move(o));
  };
  const auto start = rules_.find(root);
  if (start == rules_.end()) return error(0, "there is no rule \"" + std::string(root) + "\"");
  enter(start->second);
  while (!open.empty()) {
    Open& top = open.back();
    if (top.next == top.references.size()) {
      Named* named = top.named;
      open.pop_back();
      QR_TRY_VOID(settle_rule(rx, *named));
      continue;
    }
    const Node& n = nodes_[top.references[top.next++]];
    const auto it = rules_.find(n.name);
    if (it == rules_.end()) return error(n.offset, "there is no rule \"" + n.name + "\"");
    if (it->second.state == Named::State::fresh) enter(it->second);
  }
  return {};
}

Rule RuleBook::rule_for(NetworkBuilder& net, Named& named) {
  if (!named.has_rule) {
    named.has_rule = true;
    named.rule = net.rule();
    todo_.push_back(&named);
  }
  return named.rule;
}

Status RuleBook::emit(NetworkBuilder& net, Expr e, Rule rule, State from, State to) {
  if (net.full()) return fail(Code::exhausted, notation_ + ": it takes more states or memory to compile than allowed");
  const Node& n = nodes_[e];
  if (n.regular) {
    net.edge_rx(from, n.rx, to);
    return {};
  }
  switch (n.kind) {
    case Kind::text:
    case Kind::except: return fail(Code::internal, "grammar: part without an expression");
    case Kind::reference: net.edge_rule(from, rule_for(net, rules_.find(n.name)->second), to); return {};
    case Kind::choice:
      for (const Expr p : n.parts) QR_TRY_VOID(emit(net, p, rule, from, to));
      return {};
    case Kind::sequence:
      for (size_t i = 0; i < n.parts.size(); ++i) {
        const State next = i + 1 < n.parts.size() ? net.state(rule) : to;
        QR_TRY_VOID(emit(net, n.parts[i], rule, from, next));
        from = next;
      }
      if (n.parts.empty()) net.edge(from, to);
      return {};
    case Kind::repeat: break;
  }
  const Expr body = n.parts[0];
  const uint32_t min = n.min, max = n.max;
  if (min > kInline || (max != kNoLimit && max > kInline)) {
    const Rule once = net.rule();
    const State end = net.state(once);
    net.final(end);
    QR_TRY_VOID(emit(net, body, once, net.start(once), end));
    net.edge_rule(from, net.loop(once, min, max), to);
    return {};
  }
  for (uint32_t i = 0; i < min; ++i) {
    const State next = net.state(rule);
    QR_TRY_VOID(emit(net, body, rule, from, next));
    from = next;
  }
  if (max == kNoLimit) {
    const State again = net.state(rule), behind = net.state(rule);
    net.edge(from, again);
    QR_TRY_VOID(emit(net, body, rule, again, behind));
    net.edge(behind, again);
    net.edge(again, to);
    return {};
  }
  for (uint32_t i = min; i < max; ++i) {
    const State next = net.state(rule);
    net.edge(from, to);
    QR_TRY_VOID(emit(net, body, rule, from, next));
    from = next;
  }
  net.edge(from, to);
  return {};
}

Result<Rule> RuleBook::build(NetworkBuilder& net, std::string_view root) {
  QR_TRY_VOID(settle(net.rx(), root));
  const Rule start = rule_for(net, rules_.find(root)->second);
  while (!todo_.empty()) {
    Named* named = todo_.back();
    todo_.pop_back();
    const State end = net.state(named->rule);
    net.final(end);
    QR_TRY_VOID(emit(net, named->body, named->rule, net.start(named->rule), end));
  }
  return start;
}

}  // namespace quire::grammar
