#include "planner/configs/internal/shell_words.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"

namespace longhaul::planner::configs::internal {
namespace {

constexpr size_t kMostWords = 100'000;
constexpr size_t kMostBytes = size_t{4} << 20;

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The length of a name at the start of the text.
size_t NameLength(std::string_view text) {
  if (text.empty() || !IsNameStart(text.front())) return 0;
  size_t length = 1;
  while (length < text.size() && IsName(text[length])) ++length;
  return length;
}

// One pass over the text with a small part of a shell's grammar: quotes, variables, arrays and
// arithmetic. Nothing is executed; what cannot be known stays in the word as it is written. The
// sizes are bounded, because variables can grow exponentially.
class ShellReader {
 public:
  ShellReader(std::string_view text, std::string_view source) : text_(text), source_(source) {}

  Result<ShellScript> Run() {
    while (at_ < text_.size() && status_.ok()) Step();
    EndWord();
    EndCommand();
    if (!status_.ok()) return status_;
    return std::move(script_);
  }

 private:
  using Values = std::vector<std::string>;

  void Step() {
    const char c = text_[at_];
    if (c == '\\') return Escape();
    if (c == '\'') return SingleQuotes();
    if (c == '"') return DoubleQuotes();
    if (c == '$') return Dollar(/*quoted=*/false);
    if (c == '#' && !in_word_) return Comment();
    ++at_;
    if (c == '\n' || c == ';' || c == '&' || c == '|') {
      CountLine(c);
      EndWord();
      if (!array_) EndCommand();
      return;
    }
    if (c == ' ' || c == '\t' || c == '\r') return EndWord();
    if (c == '(' && !array_ && in_word_ && word_.ends_with('=')) return BeginArray();
    if (c == ')' && array_) {
      EndWord();
      return EndArray();
    }
    Put(c);
  }

  void CountLine(char c) { line_ += c == '\n' ? 1 : 0; }

  void Put(char c) {
    in_word_ = true;
    word_ += c;
    Count(1);
  }

  void Put(std::string_view text) {
    in_word_ = true;
    word_ += text;
    Count(text.size());
  }

  void Count(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMostBytes || words_ > kMostWords) Refuse("expands to too much text");
  }

  void Refuse(const std::string& why) {
    // Only the first mistake is kept: later ones often follow from it.
    if (status_.ok()) {
      status_ = InvalidArgument(std::string(source_) + ":" + std::to_string(line_) + ": " + why);
    }
  }

  void Escape() {
    ++at_;
    if (at_ == text_.size()) return;
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      return;
    }
    if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') {
      ++at_;
      ++line_;
      return;
    }
    Put(c);
  }

  void SingleQuotes() {
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) {
      Refuse("a quote that does not end");
      at_ = text_.size();
      return;
    }
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    line_ += static_cast<int>(std::count(inside.begin(), inside.end(), '\n'));
    Put(inside);
    at_ = end + 1;
  }

  void DoubleQuotes() {
    in_word_ = true;
    for (++at_; at_ < text_.size();) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return;
      }
      if (c == '$') {
        Dollar(/*quoted=*/true);
        continue;
      }
      // Between double quotes a backslash escapes only these characters; before others it is a
      // character of its own.
      const bool escapes = c == '\\' && at_ + 1 < text_.size() &&
                           std::string_view("\"\\$`\n").find(text_[at_ + 1]) != std::string::npos;
      if (escapes) {
        Escape();
        continue;
      }
      CountLine(c);
      Put(c);
      ++at_;
    }
    Refuse("a quote that does not end");
  }

  void Comment() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  // The end of what an opening bracket at `open` begins, past the closing one; 0 where none is.
  size_t Closing(size_t open, char opening, char closing) const {
    size_t depth = 0;
    for (size_t i = open; i < text_.size(); ++i) {
      if (text_[i] == opening) ++depth;
      if (text_[i] == closing && --depth == 0) return i + 1;
    }
    return 0;
  }

  void Dollar(bool quoted) {
    const std::string_view rest = text_.substr(at_ + 1);
    if (const size_t length = NameLength(rest); length > 0) {
      at_ += 1 + length;
      return Expand(rest.substr(0, length), "", "$" + std::string(rest.substr(0, length)), quoted,
                    quoted);
    }
    if (rest.starts_with('{') || rest.starts_with('(')) {
      const bool brace = rest.front() == '{';
      const size_t end = Closing(at_ + 1, brace ? '{' : '(', brace ? '}' : ')');
      if (end == 0) {
        Refuse("a bracket that does not end");
        at_ = text_.size();
        return;
      }
      const std::string_view whole = text_.substr(at_, end - at_);
      line_ += static_cast<int>(std::count(whole.begin(), whole.end(), '\n'));
      at_ = end;
      return brace ? Braces(whole, quoted) : Parentheses(whole);
    }
    Put('$');
    ++at_;
  }

  // "${NAME}", "${NAME[@]}", "${NAME:-default}".
  void Braces(std::string_view whole, bool quoted) {
    const std::string_view inside = whole.substr(2, whole.size() - 3);
    const size_t length = NameLength(inside);
    const std::string_view after = inside.substr(length);
    const bool all = after == "[@]" || after == "[*]";
    const bool standard = after.starts_with(":-") || after.starts_with(":=");
    if (length == 0 || !(after.empty() || all || standard)) return Put(whole);
    Expand(inside.substr(0, length), standard ? after.substr(2) : "", std::string(whole), quoted,
           quoted && !all);
  }

  // `whole`: as one word.
  void Expand(std::string_view name, std::string_view standard, const std::string& as_written,
              bool quoted, bool whole) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) {
      const bool given =
          as_written.find(":-") != std::string::npos || as_written.find(":=") != std::string::npos;
      return Put(given ? standard : std::string_view(as_written));
    }
    // Without quotes a shell splits at spaces once more.
    Values split;
    if (!quoted) {
      for (const std::string& value : found->second) AddWords(value, split);
    }
    const Values& values = quoted ? found->second : split;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && whole) Put(' ');
      if (i > 0 && !whole) EndWord();
      Put(values[i]);
    }
  }

  // "$(( A * B ))", which is known where its names are; a command's output is not.
  void Parentheses(std::string_view whole) {
    if (whole.starts_with("$((") && whole.ends_with("))")) {
      std::string_view sum = whole.substr(3, whole.size() - 5);
      if (const auto value = Sum(sum)) return Put(std::to_string(*value));
    }
    Put(whole);
  }

  // Sums and matmuls from the left, matmuls first, in the range of 64 bits; no brackets.
  std::optional<int64_t> Sum(std::string_view text) const {
    // In 128 bits, so that one operation on two 64-bit numbers cannot overflow before the range
    // check.
    __int128 sum = 0;
    __int128 product = 0;
    char before = '+';  // of the factor that comes
    int sign = 1;
    while (true) {
      text = Trim(text);
      const auto factor = Factor(text);
      if (!factor) return std::nullopt;
      if (before == '/' && *factor == 0) return std::nullopt;
      if (before == '*') product *= *factor;
      if (before == '/') product /= *factor;
      if (before == '+' || before == '-') {
        sum += sign * product;
        sign = before == '-' ? -1 : 1;
        product = *factor;
      }
      if (product > INT64_MAX || product < -INT64_MAX || sum > INT64_MAX || sum < -INT64_MAX) {
        return std::nullopt;
      }
      text = Trim(text);
      if (text.empty()) break;
      before = text.front();
      if (std::string_view("+-*/").find(before) == std::string_view::npos) return std::nullopt;
      text.remove_prefix(1);
    }
    sum += sign * product;
    if (sum > INT64_MAX || sum < -INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(sum);
  }

  // A number or a variable's at the start of the text, which it takes away.
  std::optional<int64_t> Factor(std::string_view& text) const {
    std::string_view word = text;
    if (word.starts_with("${")) word.remove_prefix(2);
    if (word.starts_with('$')) word.remove_prefix(1);
    const size_t skipped = text.size() - word.size();
    if (const size_t length = NameLength(word); length > 0) {
      const auto found = variables_.find(word.substr(0, length));
      if (found == variables_.end() || found->second.size() != 1) return std::nullopt;
      const auto number = ParseInt64(found->second.front());
      if (!number.ok()) return std::nullopt;
      text.remove_prefix(skipped + length);
      if (skipped == 2 && !text.starts_with('}')) return std::nullopt;
      if (skipped == 2) text.remove_prefix(1);
      return *number;
    }
    size_t digits = 0;
    while (digits < word.size() && std::isdigit(static_cast<unsigned char>(word[digits])) != 0) {
      ++digits;
    }
    const auto number = ParseInt64(word.substr(0, digits));
    if (skipped > 0 || !number.ok()) return std::nullopt;
    text.remove_prefix(digits);
    return *number;
  }

  void BeginArray() {
    word_.pop_back();
    array_adds_ = word_.ends_with('+');
    if (array_adds_) word_.pop_back();
    array_ = std::move(word_);
    word_.clear();
    in_word_ = false;
    array_values_.clear();
  }

  void EndArray() {
    script_.arrays.push_back(array_values_);
    Values& values = variables_[*array_];
    if (!array_adds_) values.clear();
    values.insert(values.end(), array_values_.begin(), array_values_.end());
    array_.reset();
  }

  void EndWord() {
    if (!in_word_) return;
    in_word_ = false;
    ++words_;
    Count(0);
    std::string word = std::move(word_);
    word_.clear();
    if (array_) {
      array_values_.push_back(std::move(word));
      return;
    }
    const size_t length = NameLength(word);
    const std::string_view rest = std::string_view(word).substr(length);
    const bool adds = rest.starts_with("+=");
    // An assignment counts only where no command word precedes it; later in a command it is an
    // argument.
    const bool sets = length > 0 && (adds || rest.starts_with('='));
    if (sets && (command_.empty() || command_.back() == "export")) {
      Values& values = variables_[word.substr(0, length)];
      if (!adds) values.clear();
      AddWords(rest.substr(adds ? 2 : 1), values);
      return;
    }
    command_.push_back(std::move(word));
  }

  // A text with spaces counts as several words where it is used.
  static void AddWords(std::string_view text, Values& values) {
    constexpr std::string_view kSpaces = " \t\r\n";
    while (true) {
      const size_t begin = text.find_first_not_of(kSpaces);
      if (begin == std::string_view::npos) return;
      const size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
      values.emplace_back(text.substr(begin, end - begin));
      text.remove_prefix(end);
    }
  }

  void EndCommand() {
    if (!command_.empty()) script_.commands.push_back(std::move(command_));
    command_.clear();
  }

  std::string_view text_;
  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  size_t bytes_ = 0;
  size_t words_ = 0;
  Status status_;
  bool in_word_ = false;
  std::string word_;
  std::vector<std::string> command_;
  std::optional<std::string> array_;  // whose words are being read
  bool array_adds_ = false;
  Values array_values_;
  std::map<std::string, Values, std::less<>> variables_;
  ShellScript script_;
};

}  // namespace

Result<ShellScript> ReadShell(std::string_view text, std::string_view source) {
  return ShellReader(text, source).Run();
}

}  // namespace longhaul::planner::configs::internal
