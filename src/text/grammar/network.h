// A grammar as a network: rules are automata whose edges are lexemes, other rules or nothing (a recursive transition
// network), so that sequences, alternatives, options and loops need no helper rules. What a front end builds, what
// Earley's algorithm (earley.h) runs on. Counted loops are rules of their own with a counter in the item, so that
// `maxItems: 1000000000` is one state. Immutable once finished; built by one thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/grammar/rx.h"

namespace quire::grammar {

using Lexeme = uint32_t;
using Rule = uint32_t;
using State = uint32_t;

struct Edge {
  enum class Kind : uint8_t { lexeme, rule, empty } kind = Kind::empty;
  uint32_t label = 0;  // the lexeme or the rule
  State to = 0;
};

struct NetworkLimits {
  size_t states = 400'000;
  size_t edges = 800'000;
  size_t lexemes = 100'000;
};

// What the parser reads. Edges of state s: edges[first_edge[s]] up to edges[first_edge[s + 1]].
struct Network {
  struct StateInfo {
    Rule rule = 0;
    bool final = false;
    bool loop = false;          // a counted loop: final from `min` on, its only edge counts one
    uint32_t min = 0, max = 0;  // loop
  };
  std::vector<StateInfo> states;
  std::vector<uint32_t> first_edge;
  std::vector<Edge> edges;
  std::vector<State> start_of;  // by rule
  std::vector<bool> nullable;   // by rule
  std::vector<Rx> lexemes;      // none of them matches the empty string or nothing
  std::vector<Rx> wide;         // of one character: each matches all that JSON strings hold unescaped
  std::vector<Token> controls;  // control tokens that lexemes name, by index
  Rule root = 0;

  size_t bytes() const {
    return states.size() * sizeof(StateInfo) + first_edge.size() * 4 + edges.size() * sizeof(Edge) +
           start_of.size() * 4 + nullable.size() / 8 + lexemes.size() * 4;
  }
};

class NetworkBuilder {
 public:
  NetworkBuilder(RxStore& rx, NetworkLimits limits) : rx_(rx), limits_(limits) {}

  RxStore& rx() { return rx_; }
  // A rule without edges yet; its start state is start(rule).
  Rule rule();
  State start(Rule r) const { return start_of_[r]; }
  State state(Rule r);
  void final(State s) { states_[s].final = true; }
  void edge(State from, State to);                // nothing
  void edge_rx(State from, Rx lexeme, State to);  // what the expression matches, in one lexeme
  void edge_rule(State from, Rule r, State to);
  // A rule that is min..max times `body` (kNoLimit: no end).
  Rule loop(Rule body, uint32_t min, uint32_t max);
  // A lexeme that is this control token and nothing else.
  Rx control(Token id);
  // Notes an expression for Network::wide.
  void wide(Rx one_character) { wide_.push_back(one_character); }
  // A rule of one lexeme.
  Rule rule_of(Rx lexeme);

  bool full() const { return full_ || rx_.exhausted(); }
  size_t n_states() const { return states_.size(); }

  // Which rules derive anything at all, and from which states an end of their rule can be reached. Only of what was
  // made so far; rules still without edges derive nothing.
  struct Productive {
    std::vector<bool> rules, states;
  };
  Productive productive() const;
  // Drops what derives nothing. Code::exhausted beyond the limits; Code::invalid where nothing can match.
  Result<Network> finish(Rule root);

 private:
  struct HalfEdge {
    State from;
    Edge edge;
  };
  Lexeme lexeme(Rx rx);
  void add(State from, Edge e);
  void find_nullable(Network& net) const;
  static void cut_tail_calls(Network& net);

  RxStore& rx_;
  NetworkLimits limits_;
  std::vector<Network::StateInfo> states_;
  std::vector<HalfEdge> edges_;
  std::vector<State> start_of_;
  std::vector<Rx> lexemes_;
  std::unordered_map<Rx, Lexeme> lexeme_of_;
  std::vector<Token> controls_;
  std::vector<Rx> wide_;
  bool full_ = false;
};

}  // namespace quire::grammar
