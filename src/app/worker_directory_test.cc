// Where routers of a directory are told that a server is: what no router could go by is refused at the start.
#include "app/worker_directory.h"

#include <gtest/gtest.h>

#include <string>

namespace quire {
namespace {

// What is wrong; empty: nothing. `url`: where the server listens.
std::string refusal(const std::string& directory, const std::string& url, const std::string& advertised = "") {
  DirectoryPlace place;
  place.url = directory;
  place.advertised = advertised;
  Status checked = check_directory_place(place);
  if (checked) checked = check_reachable(place, url);
  if (checked) {
    EXPECT_EQ(place.redis.host.empty(), directory.empty());
    return "";
  }
  EXPECT_EQ(checked.error().code, Code::invalid);
  return checked.error().message;
}

TEST(DirectoryPlace, EveryAddressOfTheMachineIsNoPlace) {
  for (const char* url : {"http://0.0.0.0:8080", "https://[::]:8080", "http://0:1", "http://[::0]:1"}) {
    const std::string told = refusal("redis://10.0.0.5", url);
    EXPECT_NE(told.find("every address of this machine"), std::string::npos) << url << ": " << told;
    EXPECT_EQ(refusal("redis://10.0.0.5", url, "http://10.0.0.1:8080"), "") << url;
    const std::string advertised = refusal("redis://10.0.0.5", "http://10.0.0.1:8080", url);
    EXPECT_NE(advertised.find("--advertise"), std::string::npos) << url << ": " << advertised;
  }
}

TEST(DirectoryPlace, LoopbackIsOneOnlyBesideTheDirectoryOrWhereItIsSaid) {
  for (const char* url : {"http://127.0.0.1:8080", "http://[::1]:8080", "http://127.0.0.2:1"}) {
    const std::string told = refusal("redis://10.0.0.5", url);
    EXPECT_NE(told.find("only this machine reaches it"), std::string::npos) << url << ": " << told;
    EXPECT_EQ(refusal("redis://127.0.0.1:6380", url), "") << url;
    EXPECT_EQ(refusal("redis://localhost", url), "") << url;
    EXPECT_EQ(refusal("redis://10.0.0.5", url, "http://127.0.0.1:8080"), "") << url;
  }
  for (const char* url : {"http://10.0.0.1:8080", "https://[fd00::1]:8080"})
    EXPECT_EQ(refusal("redis://10.0.0.5", url), "") << url;
}

TEST(DirectoryPlace, OptionsNeedADirectoryAndAnAddressIsOne) {
  const std::string here = "http://10.0.0.1:8080";
  EXPECT_EQ(refusal("", "http://0.0.0.0:8080"), "");
  EXPECT_NE(refusal("", here, "http://10.0.0.1:80").find("need --directory"), std::string::npos);
  EXPECT_NE(refusal("redis://10.0.0.5", here, "ftp://x").find("--advertise"), std::string::npos);
  const std::string longest = "http://" + std::string(kMostEnteredBytes, 'x');
  EXPECT_NE(refusal("redis://10.0.0.5", here, longest).find("the limit is 512"), std::string::npos);
  EXPECT_NE(refusal("http://10.0.0.5", here).find("--directory"), std::string::npos);
}

}  // namespace
}  // namespace quire
