// See network.h.
#include "text/grammar/network.h"

#include <algorithm>

namespace quire::grammar {

Rule NetworkBuilder::rule() {
  const auto r = static_cast<Rule>(start_of_.size());
  start_of_.push_back(0);
  start_of_[r] = state(r);
  return r;
}

State NetworkBuilder::state(Rule r) {
  if (states_.size() >= limits_.states) full_ = true;
  states_.push_back({r});
  return static_cast<State>(states_.size()) - 1;
}

void NetworkBuilder::add(State from, Edge e) {
  if (edges_.size() >= limits_.edges) full_ = true;
  if (!full_) edges_.push_back({from, e});
}

void NetworkBuilder::edge(State from, State to) { add(from, {Edge::Kind::empty, 0, to}); }
void NetworkBuilder::edge_rule(State from, Rule r, State to) { add(from, {Edge::Kind::rule, r, to}); }

// Expressions that match the empty string, too, become an edge with nothing beside a lexeme that is never empty:
// lexemes of no bytes do not exist, because the parser moves by bytes.
void NetworkBuilder::edge_rx(State from, Rx rx, State to) {
  if (rx_.nullable(rx)) edge(from, to);
  if (rx == RxStore::kEmpty || !rx_.alive(rx)) return;
  add(from, {Edge::Kind::lexeme, lexeme(rx), to});
}

Lexeme NetworkBuilder::lexeme(Rx rx) {
  const auto [it, fresh] = lexeme_of_.emplace(rx, static_cast<Lexeme>(lexemes_.size()));
  if (fresh) lexemes_.push_back(rx);
  if (lexemes_.size() > limits_.lexemes) full_ = true;
  return it->second;
}

Rule NetworkBuilder::loop(Rule body, uint32_t min, uint32_t max) {
  const Rule r = rule();
  const State s = start(r);
  states_[s].loop = true;
  states_[s].min = min;
  states_[s].max = max;
  states_[s].final = min == 0;
  edge_rule(s, body, s);
  return r;
}

Rule NetworkBuilder::rule_of(Rx rx) {
  const Rule r = rule();
  const State end = state(r);
  edge_rx(start(r), rx, end);
  final(end);
  return r;
}

Rx NetworkBuilder::control(Token id) {
  auto it = std::find(controls_.begin(), controls_.end(), id);
  if (it == controls_.end()) it = controls_.insert(controls_.end(), id);
  return rx_.control(static_cast<uint32_t>(it - controls_.begin()));
}

// A state is good when an end of its rule can be reached from it over edges that derive something. Worked backwards
// from the ends, each edge looked at once.
NetworkBuilder::Productive NetworkBuilder::productive() const {
  std::vector<std::vector<uint32_t>> into(states_.size()), uses(start_of_.size());
  for (uint32_t i = 0; i < edges_.size(); ++i) {
    into[edges_[i].edge.to].push_back(i);
    if (edges_[i].edge.kind == Edge::Kind::rule) uses[edges_[i].edge.label].push_back(i);
  }
  std::vector<bool> good(states_.size(), false), rule_good(start_of_.size(), false);
  std::vector<State> todo;
  const auto mark = [&](State s) {
    if (!good[s]) good[s] = true, todo.push_back(s);
  };
  for (State s = 0; s < states_.size(); ++s) {
    if (states_[s].final) mark(s);
  }
  const auto usable = [&](const Edge& e) { return e.kind != Edge::Kind::rule || rule_good[e.label]; };
  while (!todo.empty()) {
    const State s = todo.back();
    todo.pop_back();
    for (const uint32_t i : into[s]) {
      if (usable(edges_[i].edge)) mark(edges_[i].from);
    }
    const Rule r = states_[s].rule;
    if (s != start_of_[r] || rule_good[r]) continue;
    rule_good[r] = true;
    for (const uint32_t i : uses[r]) {
      const State from = edges_[i].from;
      if (states_[from].loop || good[edges_[i].edge.to]) mark(from);
    }
  }
  return {std::move(rule_good), std::move(good)};
}

void NetworkBuilder::find_nullable(Network& net) const {
  std::vector<std::vector<uint32_t>> into(net.states.size()), uses(net.start_of.size());
  std::vector<State> from(net.edges.size());
  std::vector<bool> empty(net.states.size(), false);  // an end can be reached over nothing
  std::vector<State> todo;
  const auto mark = [&](State s) {
    if (!empty[s]) empty[s] = true, todo.push_back(s);
  };
  for (State s = 0; s < net.states.size(); ++s) {
    for (uint32_t i = net.first_edge[s]; i < net.first_edge[s + 1]; ++i) {
      from[i] = s;
      into[net.edges[i].to].push_back(i);
      if (net.edges[i].kind == Edge::Kind::rule) uses[net.edges[i].label].push_back(i);
    }
    if (net.states[s].final) mark(s);
  }
  net.nullable.assign(net.start_of.size(), false);
  while (!todo.empty()) {
    const State s = todo.back();
    todo.pop_back();
    for (const uint32_t i : into[s]) {
      const Edge& e = net.edges[i];
      if (e.kind == Edge::Kind::empty || (e.kind == Edge::Kind::rule && net.nullable[e.label])) mark(from[i]);
    }
    const Rule r = net.states[s].rule;
    if (s != net.start_of[r] || net.nullable[r]) continue;
    net.nullable[r] = true;
    for (const uint32_t i : uses[r]) {
      if (net.states[from[i]].loop || empty[net.edges[i].to]) mark(from[i]);
    }
  }
  for (auto& s : net.states) {  // a loop over what may be nothing needs no least count
    if (s.loop && net.nullable[s.rule]) s.min = 0, s.final = true;
  }
}

// A rule that ends by calling itself goes back to its own start instead, so that lists written with right recursion
// stay flat.
void NetworkBuilder::cut_tail_calls(Network& net) {
  const auto is_end = [&](State s) {
    return net.states[s].final && !net.states[s].loop && net.first_edge[s] == net.first_edge[s + 1];
  };
  for (State s = 0; s < net.states.size(); ++s) {
    if (net.states[s].loop) continue;
    for (uint32_t i = net.first_edge[s]; i < net.first_edge[s + 1]; ++i) {
      Edge& e = net.edges[i];
      if (e.kind != Edge::Kind::rule || e.label != net.states[s].rule || !is_end(e.to)) continue;
      e = {Edge::Kind::empty, 0, net.start_of[e.label]};
    }
  }
}

Result<Network> NetworkBuilder::finish(Rule root) {
  if (full()) return fail(Code::exhausted, "grammar: too large: more than the limits of states, lexemes or memory");
  const Productive good = productive();
  if (!good.rules[root]) return fail(Code::invalid, "grammar: nothing can match it");
  Network net;
  net.states = states_;
  net.start_of = start_of_;
  net.root = root;
  net.lexemes = lexemes_;
  net.controls = controls_;
  net.wide = wide_;
  const auto keep = [&](const Edge& e) {
    return good.states[e.to] && (e.kind != Edge::Kind::rule || good.rules[e.label]);
  };
  net.first_edge.assign(states_.size() + 1, 0);
  for (const HalfEdge& h : edges_) {
    if (keep(h.edge)) ++net.first_edge[h.from + 1];
  }
  for (size_t s = 0; s < states_.size(); ++s) net.first_edge[s + 1] += net.first_edge[s];
  net.edges.resize(net.first_edge.back());
  std::vector<uint32_t> at(net.first_edge.begin(), net.first_edge.end() - 1);
  for (const HalfEdge& h : edges_) {
    if (keep(h.edge)) net.edges[at[h.from]++] = h.edge;
  }
  cut_tail_calls(net);
  find_nullable(net);
  return net;
}

}  // namespace quire::grammar
