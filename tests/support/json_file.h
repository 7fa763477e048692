// A JSON file that a test needs; where it cannot be read, the test fails with its path and goes on with null.
#pragma once
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/json.h"

namespace quire {

inline Json read_json(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  Result<Json> json = Json::parse(text.str());
  EXPECT_TRUE(json) << path;
  return json ? *json : Json();
}

}  // namespace quire
