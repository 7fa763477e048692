#include "hub/hub.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr size_t kMaxTextBytes = size_t{16} << 20;
constexpr int kMaxPages = 200;
constexpr int64_t kFirstWaitMs = 500, kLongestWaitMs = 16'000;
constexpr int64_t kMaxRetryAfterS = 60;      // asked to wait longer, one comes back another time
constexpr int64_t kProgressBytes = 1 << 20;  // of a try after which the count of tries begins anew

bool may_pass(int status) { return status == 408 || status == 429 || (status >= 500 && status != 501); }

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

class TextSink final : public HubSink {
 public:
  explicit TextSink(std::string& text) : text_(text) {}
  int64_t from() const override { return 0; }
  bool begin(const HubAnswer&) override {
    text_.clear();
    return true;
  }
  bool take(std::string_view bytes) override {
    if (text_.size() + bytes.size() > kMaxTextBytes) return false;
    text_ += bytes;
    return true;
  }
  bool complete() const override { return true; }
  bool begin_anew() override { return false; }

 private:
  std::string& text_;
};

}  // namespace

Hub::Hub(HubOptions options, std::unique_ptr<HubTransfer> transfer)
    : options_(std::move(options)), transfer_(std::move(transfer)) {}

Result<Hub> Hub::open(HubOptions options) {
  std::string& endpoint = options.endpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  // Names and passwords in an address would end up in messages.
  if (scheme == 0 || endpoint.size() == scheme || !is_printable(endpoint) ||
      endpoint.find_first_of("?#@") != endpoint.npos)
    return fail(Code::invalid, "the hub's address " + in_quotes(endpoint) + ": must be http:// or https:// and a host");
  if (!is_printable(options.token)) return fail(Code::invalid, "the token has blanks or characters that no token has");
  QR_TRY(auto transfer, HubTransfer::open(options.token));
  return Hub(std::move(options), std::move(transfer));
}

// Answers that may be others the next time are asked for again, as are ends of a connection, each time after a longer
// wait, unless a try got further.
Result<HubAnswer> Hub::get(const std::string& url, HubSink& sink) {
  bool reached = false;
  int64_t wait_ms = kFirstWaitMs;
  for (int n_tries = 0;; ++n_tries) {
    const int64_t before = sink.from();
    Result<HubAnswer> answer = transfer_->get(url, sink);
    reached |= answer.has_value() || sink.from() > before;
    if (answer && is_good(answer->status) && !sink.complete())
      answer = fail(Code::io, "the connection ended after " + std::to_string(sink.from()) + " bytes");
    if (answer && answer->status == 416 && before > 0 && sink.begin_anew()) continue;
    if (answer && !may_pass(answer->status)) return answer;
    const Code code = answer ? Code::io : answer.error().code;
    if (code == Code::not_found ? !reached : code != Code::io && code != Code::timeout) return answer;
    if (sink.from() - before >= kProgressBytes) {
      n_tries = 0;
      wait_ms = kFirstWaitMs;
    }
    const int64_t asked_s = answer ? answer->retry_after_s : -1;
    if (n_tries >= options_.retries || asked_s > kMaxRetryAfterS) return answer;
    const int64_t now_ms = asked_s >= 0 ? asked_s * 1000 : wait_ms;
    if (options_.told) {
      options_.told((answer ? "status " + std::to_string(answer->status) : answer.error().message) +
                    "; trying again in " + std::to_string((now_ms + 999) / 1000) + " s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(now_ms));
    wait_ms = std::min(2 * wait_ms, kLongestWaitMs);
  }
}

Result<HubAnswer> Hub::get_text(const std::string& url, std::string& text) {
  TextSink sink(text);
  auto answer = get(url, sink);
  if (!answer && answer.error().code == Code::cancelled)
    return fail(Code::corrupt, "the hub's answer has more than " + std::to_string(kMaxTextBytes) + " bytes");
  if (!answer && answer.error().code == Code::not_found)
    return fail(Code::io, options_.endpoint + " cannot be reached: " + answer.error().message +
                              " (is this machine online? HF_ENDPOINT names another hub)");
  if (!answer) return error_within(options_.endpoint, answer.error());
  return answer;
}

Error Hub::refusal(const HubAnswer& answer, const std::string& id, const std::string& what) const {
  const std::string page = options_.endpoint + "/" + id;
  const bool has_token = transfer_->has_token();
  std::string out = what + ": ";
  Code code = Code::io;
  switch (answer.status) {
    case 401:
      out += has_token
                 ? "the hub does not accept the token in HF_TOKEN (401)"
                 : "the hub wants to know who asks (401): set HF_TOKEN to a token of your account there; a name that "
                   "does not exist is answered like this too";
      break;
    case 403:
      out += "the hub does not let " + std::string(has_token ? "this token's account" : "nobody in particular") +
             " have it (403): ask for access at " + page + (has_token ? "" : ", then set HF_TOKEN");
      break;
    case 404:
      code = Code::not_found;
      out += "the hub does not have it (404)";
      break;
    case 429:
      out += "the hub gets too many requests from here (429): come again in " +
             (answer.retry_after_s >= 0 ? std::to_string(answer.retry_after_s) + " s" : "some minutes") +
             (has_token ? "" : ", or set HF_TOKEN");
      break;
    default:
      out += "the hub answers with status " + std::to_string(answer.status) +
             (answer.status >= 500 ? ": try again later" : "");
  }
  if (!answer.error_message.empty()) out += "; it says " + in_quotes(answer.error_message);
  return {code, out};
}

Result<HubListing> Hub::list(const RepoName& repo) {
  HubListing out;
  const std::string api = options_.endpoint + "/api/models/" + repo.id;
  const std::string about = repo.id + (repo.revision == "main" ? "" : "@" + repo.revision);
  std::string text;
  QR_TRY(HubAnswer answer, get_text(api + "/revision/" + url_escape(repo.revision, false), text));
  if (!is_good(answer.status)) return tl::make_unexpected(refusal(answer, repo.id, about));
  QR_TRY(out.commit, parse_commit(text));
  const std::string tree = api + "/tree/" + out.commit + "?";
  std::string query = "recursive=true";
  for (int page = 0; page < kMaxPages; ++page) {
    QR_TRY(answer, get_text(tree + query, text));
    if (!is_good(answer.status)) return tl::make_unexpected(refusal(answer, repo.id, about));
    QR_TRY_VOID(add_listing(text, out.files));
    const auto next = next_page(answer.link);
    if (!next) return out;
    query = *next;
  }
  return fail(Code::corrupt, about + ": the listing has more than " + std::to_string(kMaxPages) + " pages");
}

Status Hub::fetch(const std::string& id, const std::string& commit, const HubFile& file, HubSink& sink) {
  if (sink.complete()) return {};
  const std::string url = options_.endpoint + "/" + id + "/resolve/" + commit + "/" + url_escape(file.path, true);
  auto answer = get(url, sink);
  if (!answer) return error_within(file.path, answer.error());
  if (!is_good(answer->status)) return tl::make_unexpected(refusal(*answer, id, file.path));
  return {};
}

}  // namespace quire
