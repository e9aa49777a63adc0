// Holds docs/job-file.md against the reader: every key, its default and its limits.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "spec/internal/job_schema.h"
#include "spec/job/job.h"

namespace longhaul::spec {
namespace {

struct Row {
  std::string standard;
  std::string limits;
};

// The tables' rows: | `key` | default | limits | meaning |. Tests run in the project's root.
std::map<std::string, Row> DocumentedKeys() {
  std::map<std::string, Row> rows;
  std::ifstream file("docs/job-file.md");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("| `")) continue;
    const auto cells = Split(line, '|');
    if (cells.size() != 6) {
      ADD_FAILURE() << "not a row of four cells: " << line;
      continue;
    }
    const std::string_view key = Trim(cells[1]);
    rows[std::string(key.substr(1, key.size() - 2))] = {std::string(Trim(cells[2])),
                                                        std::string(Trim(cells[3]))};
  }
  return rows;
}

TEST(JobReference, DocumentsEveryKeyWithItsLimitsAndNoOther) {
  std::map<std::string, Row> documented = DocumentedKeys();
  ASSERT_FALSE(documented.empty());
  for (const internal::KeyInfo& key : internal::JobKeys()) {
    ASSERT_TRUE(documented.contains(key.path)) << key.path << ": " << key.limits;
    EXPECT_EQ(documented[key.path].limits, key.limits) << key.path;
    documented.erase(key.path);
  }
  for (const auto& [path, row] : documented) ADD_FAILURE() << "no such key: " << path;
}

// The defaults as ToYaml writes them: "  steps: 300" under "train:".
TEST(JobReference, DocumentsTheDefaults) {
  const std::map<std::string, Row> documented = DocumentedKeys();
  std::istringstream yaml(ToYaml(JobSpec()));
  std::string line;
  std::string section;
  int checked = 0;
  while (std::getline(yaml, line)) {
    const size_t colon = line.find(':');
    const std::string key(Trim(line.substr(0, colon)));
    const std::string value(Trim(line.substr(colon + 1)));
    if (!line.starts_with(" ")) section = value.empty() ? key + "." : "";
    if (value.empty() || !documented.contains(section + key)) continue;
    const std::string& standard = documented.at(section + key).standard;
    if (standard.starts_with("*")) continue;  // said in words
    const std::string want = key == "max_bytes" ? "64MiB" : key == "log_size" ? "1GiB" : value;
    EXPECT_EQ(standard, "`" + want + "`") << section << key;
    ++checked;
  }
  EXPECT_GE(checked, 25);
  EXPECT_EQ(internal::SizeText(DataSpec().max_bytes), "64MiB");
  EXPECT_EQ(internal::SizeText(LimitSpec().log_size), "1GiB");
}

}  // namespace
}  // namespace longhaul::spec
