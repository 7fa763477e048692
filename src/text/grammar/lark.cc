// See lark.h. What is ignored may follow every terminal of a rule and come before the first. Groups nest on a stack.
#include "text/grammar/lark.h"

#include "text/grammar/finish.h"
#include "text/grammar/pattern.h"
#include "text/grammar/rule_book.h"
#include "text/grammar/scanner.h"

namespace quire {

using namespace grammar;

namespace {

constexpr uint32_t kMaxCount = 1'000'000'000;
constexpr std::string_view kJsonString = "%json_string";

struct CommonTerminal {
  std::string_view name, pattern;
};
// Lark's common.lark, in our words.
constexpr CommonTerminal kCommon[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"NUMBER", "[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+|[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
};

bool is_name_char(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_'; }

class LarkParser {
 public:
  LarkParser(std::string_view source, NetworkBuilder& net)
      : in_(source, "lark", false),
        book_("lark"),
        net_(net),
        spelling_(spelling_of(source)),
        chars_(net.rx(), spelling_) {}

  Result<Rule> run() {
    net_.wide(chars_.any());
    for (skip_lines(); !in_.done(); skip_lines()) QR_TRY_VOID(in_.accept("%") ? directive() : definition());
    // %ignore may come behind the rules that it is about: they refer to it by a name that no one can write.
    QR_TRY_VOID(book_.define(" ignored", book_.repeat(book_.choice(ignored_), 0, kNoLimit), 0));
    const RuleBook::Expr first = book_.reference(" ignored", 0), start = book_.reference("start", 0);
    QR_TRY_VOID(book_.define(" text", book_.sequence({first, start}), 0));
    return book_.build(net_, " text");
  }

 private:
  struct Frame {
    std::vector<RuleBook::Expr> choices, sequence;
    char close = '\0';  // ')' or ']'
  };

  // The last line says it, so that places in the text are the author's.
  static Spelling spelling_of(std::string_view source) {
    while (source.ends_with(' ') || source.ends_with('\n')) source.remove_suffix(1);
    const size_t line = source.rfind('\n') + 1;  // 0 where there is no other
    return source.substr(line) == kJsonString ? Spelling::json : Spelling::utf8;
  }

  tl::unexpected<Error> unsupported(std::string_view what) const {
    return fail(Code::unsupported, "lark: " + std::string(what) + " at offset " + std::to_string(in_.at()));
  }

  void skip_blank() {  // within a line
    for (;;) {
      in_.take_while([](char c) { return c == ' ' || c == '\t' || c == '\r'; });
      if (!in_.looking_at("//")) return;
      in_.take_while([](char c) { return c != '\n'; });
    }
  }
  void skip_lines() {
    do skip_blank();
    while (in_.accept("\n"));
  }
  // Whether the next line goes on with "|".
  bool goes_on() {
    const size_t here = in_.at();
    skip_lines();
    if (in_.looking_at("|")) return true;
    in_.go_to(here);
    return false;
  }

  static bool is_terminal(std::string_view name) {
    const size_t i = name.find_first_not_of('_');
    return i != std::string_view::npos && name[i] >= 'A' && name[i] <= 'Z';
  }

  Status define_common(std::string_view name, std::string_view as) {
    for (const CommonTerminal& t : kCommon) {
      if (t.name != name) continue;
      QR_TRY(const Rx rx, compile_pattern(t.pattern, PatternMeans::whole_text, chars_));
      return book_.define(as, book_.text(rx), in_.at());
    }
    return unsupported("there is no common terminal \"" + std::string(name) + "\"");
  }

  Status import() {
    skip_blank();
    if (!in_.accept("common.")) return unsupported("an import of other than common terminals");
    std::string_view name = in_.take_while(is_name_char), as = name;
    skip_blank();
    if (in_.accept("->")) {
      skip_blank();
      as = in_.take_while(is_name_char);
    }
    return define_common(name, as);
  }

  Status directive() {
    if (in_.accept("import")) return import();
    if (in_.accept(kJsonString.substr(1))) {
      skip_lines();
      return in_.done() && spelling_ == Spelling::json ? Status() : in_.error("%json_string is no last line");
    }
    if (!in_.accept("ignore")) return unsupported("this directive");
    in_terminal_ = true;
    QR_TRY(const RuleBook::Expr what, expansions());
    ignored_.push_back(what);
    return {};
  }

  Status definition() {
    in_.take_while([](char c) { return c == '?' || c == '!'; });
    const size_t offset = in_.at();
    const std::string_view name = in_.take_while(is_name_char);
    if (name.empty()) return in_.error("a rule or terminal is missing");
    if (in_.looking_at("{")) return unsupported("a template");
    if (in_.accept(".")) {
      in_.accept("-");
      QR_TRY([[maybe_unused]] const uint32_t priority, in_.number(kMaxCount));
    }
    skip_lines();
    if (!in_.accept(":")) return in_.error(": is missing");
    in_terminal_ = is_terminal(name);
    QR_TRY(const RuleBook::Expr body, expansions());
    return book_.define(name, body, offset);
  }

  RuleBook::Expr close(Frame& f) {
    f.choices.push_back(book_.sequence(std::move(f.sequence)));
    return book_.choice(std::move(f.choices));
  }

  Result<RuleBook::Expr> expansions() {
    std::vector<Frame> open(1);
    for (;;) {
      if (open.size() > 1) skip_lines();
      skip_blank();
      Frame& f = open.back();
      if (in_.accept("|")) {
        f.choices.push_back(book_.sequence(std::move(f.sequence)));
        f.sequence.clear();
        skip_lines();
      } else if (in_.accept("->")) {
        skip_blank();
        in_.take_while(is_name_char);  // a name for the tree: there is none here
      } else if (in_.looking_at("(") || in_.looking_at("[")) {
        if (open.size() >= RuleBook::kMaxDepth)
          return in_.error("groups nested deeper than " + std::to_string(RuleBook::kMaxDepth));
        open.emplace_back();
        open.back().close = in_.accept("(") ? ')' : ']';
        if (open.back().close == ']') in_.accept("[");
      } else if (open.size() > 1 && in_.peek() == f.close) {
        const bool optional = f.close == ']';
        in_.go_to(in_.at() + 1);
        RuleBook::Expr group = close(f);
        if (optional) group = book_.repeat(group, 0, 1);
        open.pop_back();
        QR_TRY_VOID(push(open.back(), group));
      } else if (in_.done() || in_.looking_at("\n")) {
        if (open.size() > 1) return in_.error("a group without its end");
        if (!goes_on()) return close(open[0]);
      } else {
        QR_TRY(const RuleBook::Expr part, atom());
        QR_TRY_VOID(push(f, part));
      }
    }
  }

  Status push(Frame& f, RuleBook::Expr part) {
    uint32_t min = 1, max = 1;
    skip_blank();
    if (in_.accept("?")) {
      min = 0;
    } else if (in_.accept("*")) {
      min = 0, max = kNoLimit;
    } else if (in_.accept("+")) {
      max = kNoLimit;
    } else if (in_.accept("~")) {
      skip_blank();
      QR_TRY(min, in_.number(kMaxCount));
      max = min;
      skip_blank();
      if (in_.accept("..")) {
        skip_blank();
        QR_TRY(max, in_.number(kMaxCount));
      }
      if (max < min) return in_.error("counts out of order");
    }
    f.sequence.push_back(min == 1 && max == 1 ? part : book_.repeat(part, min, max));
    return {};
  }

  // In rules a terminal takes what is ignored behind it along.
  RuleBook::Expr leaf(RuleBook::Expr e) {
    return in_terminal_ ? e : book_.sequence({e, book_.reference(" ignored", in_.at())});
  }

  Result<RuleBook::Expr> atom() {
    const size_t offset = in_.at();
    if (in_.accept("\"")) return string();
    if (in_.looking_at("/")) return expression();
    if (in_.accept("<[")) {
      QR_TRY(const uint32_t id, in_.number(1u << 30));
      if (!in_.accept("]>")) return in_.error("]> is missing");
      if (spelling_ == Spelling::json) return unsupported("a control token, inside of a JSON string,");
      return leaf(book_.text(net_.control(static_cast<Token>(id))));
    }
    const std::string_view name = in_.take_while(is_name_char);
    if (name.empty()) return in_.error("a string, expression, group or name is missing");
    if (in_.looking_at("{")) return unsupported("a template");
    const RuleBook::Expr e = book_.reference(name, offset);
    return is_terminal(name) ? leaf(e) : e;
  }

  Result<RuleBook::Expr> string() {
    QR_TRY(const std::string first, in_.quoted('"'));
    if (in_.accept("..")) {
      if (!in_.accept("\"")) return in_.error("the end of a range is missing");
      QR_TRY(const std::string last, in_.quoted('"'));
      const std::u32string a = to_code_points(first), b = to_code_points(last);
      if (a.size() != 1 || b.size() != 1 || a[0] > b[0]) return in_.error("a range that is none");
      return leaf(book_.text(chars_.one_of(CharSet{{a[0], b[0]}})));
    }
    if (!in_.accept("i"))
      return leaf(spelling_ == Spelling::utf8 ? book_.literal(net_.rx(), first) : book_.text(chars_.text(first)));
    Rx out = RxStore::kEmpty;
    const std::u32string all = to_code_points(first);
    for (size_t i = all.size(); i-- > 0;) {
      CharSet both{{all[i], all[i]}};
      if ((all[i] | 0x20) >= 'a' && (all[i] | 0x20) <= 'z')
        both.add(all[i] ^ 0x20, all[i] ^ 0x20);
      else if (all[i] >= 0x80)
        return unsupported("a letter beyond ASCII in either case");
      out = net_.rx().cat(chars_.one_of(both), out);
    }
    return leaf(book_.text(out));
  }

  Result<RuleBook::Expr> expression() {
    in_.accept("/");
    std::string pattern;
    for (bool in_class = false; in_class || !in_.looking_at("/"); in_.go_to(in_.at() + 1)) {
      if (in_.done() || in_.looking_at("\n")) return in_.error("an expression without its end");
      const char c = in_.peek();
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      pattern += c;
      if (c != '\\') continue;
      in_.go_to(in_.at() + 1);
      if (!in_.done()) pattern += in_.peek();
    }
    in_.accept("/");
    const std::string_view flags = in_.take_while([](char c) { return c >= 'a' && c <= 'z'; });
    if (flags.find_first_not_of("is") != std::string_view::npos) return unsupported("flags but i and s");
    if (flags.find('s') != std::string_view::npos) pattern = any_dot(pattern);
    if (flags.find('i') != std::string_view::npos) pattern = "(?i:" + pattern + ")";
    const auto rx = compile_pattern(pattern, PatternMeans::whole_text, chars_);
    if (!rx) return fail(rx.error().code, "lark: /" + pattern + "/: " + rx.error().message);
    return leaf(book_.text(*rx));
  }

  // The pattern with its dots for any character at all.
  static std::string any_dot(const std::string& pattern) {
    std::string out;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size(); ++i) {
      const char c = pattern[i];
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      if (c == '.' && !in_class) {
        out += "[\\0-\\u{10FFFF}]";
        continue;
      }
      out += c;
      if (c == '\\' && i + 1 < pattern.size()) out += pattern[++i];
    }
    return out;
  }

  Scanner in_;
  RuleBook book_;
  NetworkBuilder& net_;
  const Spelling spelling_;
  CharCoder chars_;
  std::vector<RuleBook::Expr> ignored_;
  bool in_terminal_ = false;
};

}  // namespace

Result<Rule> grammar::lark_rule(std::string_view source, NetworkBuilder& net) { return LarkParser(source, net).run(); }

Result<std::shared_ptr<const Grammar>> compile_lark(std::string_view source, const GrammarLimits& limits) {
  if (source.size() > limits.source_bytes) {
    return fail(Code::invalid, "lark: " + std::to_string(source.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes));
  }
  RxStore rx(limits.memory_bytes, limits.derivatives);
  NetworkBuilder net(rx, {});
  QR_TRY(const Rule root, lark_rule(source, net));
  return finish(net, rx, root, {});
}

}  // namespace quire
