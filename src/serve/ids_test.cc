// What is given to one client foretells nothing of what others are given, and which share something counts on.
#include <set>

#include "serve/address.h"
#include "serve/testing.h"

namespace quire {
namespace {

uint64_t unshift(uint64_t x, int n) {
  uint64_t out = x;
  for (int i = n; i < 64; i += n) out = x ^ (out >> n);
  return out;
}
uint64_t inverse(uint64_t odd) {  // modulo 2^64, by Newton's iteration
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}
uint64_t unmix64(uint64_t x) {
  x = unshift(x, 31) * inverse(0x94d049bb133111ebULL);
  x = unshift(x, 27) * inverse(0xbf58476d1ce4e5b9ULL);
  return unshift(x, 30) - 0x9e3779b97f4a7c15ULL;
}
// What random_bits gives next, had it given `bits` as its number n: from this alone, the seed is not needed.
uint64_t foretold(uint64_t bits, uint64_t n, uint64_t steps) {
  const uint64_t seed = unmix64(unmix64(bits) ^ mix64(n + 0x5851f42d4c957f2dULL));
  return random_bits(seed, n + steps);
}

std::vector<std::string> ids(const TestServer& s) {
  std::vector<std::string> out;
  for (const auto& [path, body] : std::vector<std::pair<std::string, std::string>>{
           {"/v1/completions", R"({"prompt":"x"})"},
           {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})"},
           {"/v1/responses", R"({"input":"x"})"},
           {"/v1/messages", R"({"max_tokens":4,"messages":[{"role":"user","content":"x"}]})"},
           {"/generate", R"({"input_ids":[5]})"}}) {
    const HttpResponse r = s.post(path, body);
    EXPECT_EQ(r.status, 200) << path << r.body;
    out.push_back(text_at(json_at(parse_json(r.body), "id")));
    EXPECT_NE(r.header("x-request-id"), nullptr);
    if (r.header("x-request-id") != nullptr) out.push_back(*r.header("x-request-id"));
  }
  return out;
}

TEST(Ids, TheInverseIsOne) {
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(unmix64(mix64(i * 77777)), i * 77777);
  EXPECT_EQ(foretold(random_bits(5, 70), 70, 3), random_bits(5, 73));
}

TEST(Ids, OnesOwnForetellNoOthers) {
  TestServer s;
  s.options.random = nullptr;  // as in use
  s.start();
  std::set<uint64_t> seen;
  std::vector<uint64_t> first;
  for (int round = 0; round < 2; ++round) {
    for (const std::string& id : ids(s)) {
      const size_t digits = id.find_last_not_of("0123456789abcdef") + 1;
      ASSERT_EQ(id.size() - digits, 32U) << id << ": 128 bits";
      for (const size_t at : {digits, digits + 16}) {
        const uint64_t half = std::stoull(id.substr(at, 16), nullptr, 16);
        EXPECT_TRUE(seen.insert(half).second);
        if (round == 0) first.push_back(half);
      }
    }
  }
  for (const uint64_t half : first)
    for (uint64_t n = 0; n < 64; ++n)
      for (uint64_t steps = 1; steps < 64; ++steps) ASSERT_FALSE(seen.contains(foretold(half, n, steps)));
}

TEST(Ids, SeedsThatNobodyNamesAreToldToNobodyAndDiffer) {
  TestServer s;
  s.options.random = nullptr;
  std::set<uint64_t> seeds;
  s.engine.script = [&](const Request& r) {
    seeds.insert(r.sampling.seed);
    return byte_tokens("x");
  };
  s.start();
  for (int i = 0; i < 20; ++i) s.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(seeds.size(), 20U);
}

TEST(Addresses, AreOneNetworksOrOneMachines) {
  const auto number = [](const char* address) { return address_number(address, 7); };
  EXPECT_EQ(number("10.0.0.1"), number("::ffff:10.0.0.1"));
  EXPECT_NE(number("10.0.0.1"), number("10.0.0.2"));
  EXPECT_EQ(number("2001:db8:1:2::1"), number("2001:db8:1:2:ffff:ffff:ffff:ffff"));
  EXPECT_EQ(number("fe80::1"), number("fe80::1%eth0"));
  EXPECT_NE(number("2001:db8:1:2::1"), number("2001:db8:1:3::1"));
  EXPECT_NE(number("10.0.0.1"), address_number("10.0.0.1", 8)) << "by a secret";
  for (const char* odd : {"", "x", "10.0.0", ":::"}) EXPECT_NE(number(odd), 0U) << odd;
}

}  // namespace
}  // namespace quire
