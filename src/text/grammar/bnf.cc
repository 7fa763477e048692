// See bnf.h. A rule ends where the next one begins, so lines may be broken anywhere. Groups nest on a stack.
#include "text/grammar/bnf.h"

#include "text/grammar/finish.h"
#include "text/grammar/rule_book.h"
#include "text/grammar/scanner.h"

namespace quire {

using namespace grammar;

namespace {

constexpr uint32_t kMaxCount = 1'000'000'000;
constexpr int kMaxCounts = 16;  // one behind another: each is a level of nesting

constexpr const char* kNothingTaken = "there is nothing behind the -";

class BnfParser {
 public:
  BnfParser(std::string_view source, std::string_view notation, bool ebnf, NetworkBuilder& net)
      : in_(source, notation, ebnf),
        book_(std::string(notation)),
        net_(net),
        chars_(net.rx(), Spelling::utf8),
        ebnf_(ebnf) {}

  Result<Rule> run() {
    net_.wide(chars_.any());
    QR_TRY_VOID(blank());
    while (!in_.done()) {
      const size_t offset = in_.at();
      const std::string_view name = take_name();
      if (name.empty()) return in_.error("the name of a rule is missing");
      QR_TRY_VOID(blank());
      if (!in_.accept("::=")) return in_.error("::= is missing");
      QR_TRY(const RuleBook::Expr body, expression());
      QR_TRY_VOID(book_.define(name, body, offset));
    }
    return book_.build(net_, "root");
  }

 private:
  struct Frame {
    std::vector<RuleBook::Expr> choices, sequence;
    bool takes_away = false;  // the last part but one of `sequence` loses what comes next
    size_t offset = 0;
  };

  std::string_view take_name() {
    return in_.take_while([](char c) {
      return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '_';
    });
  }

  Status blank() {
    for (;;) {
      in_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
      if (in_.looking_at("#") && !in_.looking_at("#x")) {
        in_.take_while([](char c) { return c != '\n'; });
      } else if (ebnf_ && in_.accept("/*")) {
        while (!in_.accept("*/")) {
          if (in_.done()) return in_.error("a comment without its end");
          in_.go_to(in_.at() + 1);
        }
      } else {
        return {};
      }
    }
  }

  // Whether a name with ::= behind it is next.
  Result<bool> at_rule() {
    const size_t here = in_.at();
    bool is_rule = !take_name().empty();
    if (is_rule) {
      QR_TRY_VOID(blank());
      is_rule = in_.looking_at("::=");
    }
    in_.go_to(here);
    return is_rule;
  }

  RuleBook::Expr close(Frame& f) {
    f.choices.push_back(book_.sequence(std::move(f.sequence)));
    return book_.choice(std::move(f.choices));
  }

  Result<RuleBook::Expr> expression() {
    std::vector<Frame> open(1);
    for (;;) {
      QR_TRY_VOID(blank());
      Frame& f = open.back();
      if (f.takes_away && (in_.looking_at("|") || in_.looking_at(")"))) return in_.error(kNothingTaken);
      if (in_.accept("|")) {
        f.choices.push_back(book_.sequence(std::move(f.sequence)));
        f.sequence.clear();
      } else if (in_.accept("(")) {
        if (in_.looking_at("?")) return in_.error("(? is not supported");
        if (open.size() >= RuleBook::kMaxDepth)
          return in_.error("groups nested deeper than " + std::to_string(RuleBook::kMaxDepth));
        open.emplace_back();
        open.back().offset = in_.at();
      } else if (in_.accept(")")) {
        if (open.size() == 1) return in_.error(") without (");
        const RuleBook::Expr group = close(f);
        open.pop_back();
        QR_TRY_VOID(push(open.back(), group));
      } else {
        QR_TRY(const bool next_rule, at_rule());
        if (in_.done() || next_rule || in_.accept(";")) break;
        if (ebnf_ && !f.sequence.empty() && !f.takes_away && in_.looking_at("-")) {
          in_.accept("-");
          f.takes_away = true;
          continue;
        }
        QR_TRY(const RuleBook::Expr part, atom());
        QR_TRY_VOID(push(f, part));
      }
    }
    if (open.size() > 1) return in_.error("( without )");
    if (open[0].takes_away) return in_.error(kNothingTaken);
    QR_TRY_VOID(blank());
    return close(open[0]);
  }

  // Adds a part with the counts behind it.
  Status push(Frame& f, RuleBook::Expr part) {
    for (int n_counts = 0;; ++n_counts) {
      uint32_t min = 0, max = kNoLimit;
      if (in_.accept("?")) {
        max = 1;
      } else if (in_.accept("+")) {
        min = 1;
      } else if (in_.accept("{")) {
        if (!in_.looking_at(",")) {
          QR_TRY(min, in_.number(kMaxCount));
          max = min;
        }
        if (in_.accept(",")) {
          max = kNoLimit;
          if (!in_.looking_at("}")) {
            QR_TRY(max, in_.number(kMaxCount));
          }
        }
        if (!in_.accept("}")) return in_.error("} is missing");
        if (max < min) return in_.error("counts out of order");
      } else if (!in_.accept("*")) {
        break;
      }
      if (n_counts == kMaxCounts) return in_.error("more than " + std::to_string(kMaxCounts) + " counts of one part");
      part = book_.repeat(part, min, max);
    }
    if (f.takes_away) {
      f.takes_away = false;
      f.sequence.back() = book_.except(f.sequence.back(), part, in_.at());
    } else {
      f.sequence.push_back(part);
    }
    return {};
  }

  Result<RuleBook::Expr> atom() {
    const size_t offset = in_.at();
    for (const char quote : {'"', '\''}) {
      if ((quote == '\'' && !ebnf_) || !in_.accept(std::string_view(&quote, 1))) continue;
      QR_TRY(const std::string text, in_.quoted(quote));
      return book_.literal(net_.rx(), text);
    }
    if (in_.accept("[")) {
      QR_TRY(const CharSet set, in_.char_class());
      return book_.text(chars_.one_of(set));
    }
    if (ebnf_ && in_.looking_at("#x")) {
      QR_TRY(const char32_t c, in_.character());
      return book_.text(chars_.one_of(CharSet{{c, c}}));
    }
    if (in_.accept("<[")) {
      QR_TRY(const uint32_t id, in_.number(1u << 30));
      if (!in_.accept("]>")) return in_.error("]> is missing");
      return book_.text(net_.control(static_cast<Token>(id)));
    }
    if (in_.accept(".")) return book_.text(chars_.any());
    const std::string_view name = take_name();
    if (name.empty()) return in_.error("a literal, class, group or name is missing");
    return book_.reference(name, offset);
  }

  Scanner in_;
  RuleBook book_;
  NetworkBuilder& net_;
  CharCoder chars_;
  const bool ebnf_;
};

Result<std::shared_ptr<const Grammar>> compile(std::string_view source,
                                               std::string_view notation,
                                               const GrammarLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return fail(Code::invalid, std::string(notation) + ": " + std::to_string(source.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes));
  }
  RxStore rx(limits.memory_bytes, limits.derivatives);
  NetworkBuilder net(rx, {});
  QR_TRY(const Rule root, bnf_rule(source, notation, net));
  return finish(net, rx, root, {});
}

}  // namespace

Result<Rule> grammar::bnf_rule(std::string_view source, std::string_view notation, NetworkBuilder& net) {
  return BnfParser(source, notation, notation == "ebnf", net).run();
}

Result<std::shared_ptr<const Grammar>> compile_gbnf(std::string_view source, const GrammarLimits& limits) {
  return compile(source, "gbnf", limits);
}

Result<std::shared_ptr<const Grammar>> compile_ebnf(std::string_view source, const GrammarLimits& limits) {
  return compile(source, "ebnf", limits);
}

}  // namespace quire
