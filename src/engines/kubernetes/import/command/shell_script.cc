#include "engines/kubernetes/import/command/shell_script.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace longhaul::engines::kubernetes {
namespace {

// After these words comes the name of a command.
constexpr auto kBeforeCommand = std::to_array<std::string_view>(
    {"!", "{", "if", "then", "else", "elif", "while", "until", "do", "exec", "time", "nohup"});
constexpr std::string_view kOperatorCharacters = ";&|()<>\n";

class Divider {
 public:
  explicit Divider(std::string_view script) : script_(script) {}

  std::optional<std::vector<ShellToken>> Divide() {
    while (true) {
      SkipBlanks();
      if (at_ == script_.size()) break;
      const bool good = IsOperator() ? TakeOperator() : TakeWord();
      if (!good) return std::nullopt;
    }
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return script_.substr(at_); }
  bool IsOperator() const { return kOperatorCharacters.find(script_[at_]) != std::string::npos; }

  void SkipBlanks() {
    while (at_ < script_.size()) {
      if (rest().starts_with("\\\n")) {
        at_ += 2;
      } else if (script_[at_] == ' ' || script_[at_] == '\t' || script_[at_] == '\r') {
        ++at_;
      } else if (script_[at_] == '#') {
        at_ = std::min(script_.find('\n', at_), script_.size());
      } else {
        return;
      }
    }
  }

  bool TakeOperator() {
    const size_t begin = at_;
    const bool redirects = script_[at_] == '<' || script_[at_] == '>' || rest().starts_with("&>");
    if (rest().starts_with("<<") && !rest().starts_with("<<<")) return false;
    ++at_;
    while (at_ < script_.size() && script_[at_] != '\n' && IsOperator() && script_[at_] != '(' &&
           script_[at_] != ')' && script_[begin] != '\n' && script_[begin] != '(' &&
           script_[begin] != ')') {
      ++at_;
    }
    tokens_.push_back({false, {}, begin, at_, false});
    if (redirects) {
      target_next_ = true;
    } else {
      command_next_ = true;
      target_next_ = false;
    }
    return true;
  }

  bool TakeWord() {
    const size_t begin = at_;
    literal_ = true;
    text_.clear();
    while (at_ < script_.size()) {
      const char c = script_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || IsOperator()) break;
      if (!TakePiece()) return false;
    }
    ShellToken token{true, {}, begin, at_, false};
    token.word.literal = literal_;
    token.word.text = literal_ ? text_ : std::string(script_.substr(begin, at_ - begin));
    const std::string_view source = script_.substr(begin, at_ - begin);
    const bool number = source.find_first_not_of("0123456789") == source.npos;
    const bool redirects =
        number && at_ < script_.size() && (script_[at_] == '<' || script_[at_] == '>');
    token.begins_command = command_next_ && !target_next_ && !redirects;
    // "2>" belongs to the operator.
    if (redirects) token.is_word = false;
    if (token.begins_command) command_next_ = CommandFollows(source);
    if (!redirects) target_next_ = false;
    tokens_.push_back(std::move(token));
    return true;
  }

  // After a word at the beginning of a command.
  static bool CommandFollows(std::string_view word) {
    if (std::ranges::find(kBeforeCommand, word) != kBeforeCommand.end()) return true;
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0) return false;
    return std::ranges::all_of(word.substr(0, equals),
                               [](char c) { return IsLetterOrDigit(c) || c == '_'; });
  }

  bool TakePiece() {
    const char c = script_[at_];
    if (c == '\'') return TakeSingleQuotes();
    if (c == '"') return TakeDoubleQuotes();
    if (c == '`' || c == '$') return TakeExpansion();
    if (c == '\\') {
      if (at_ + 1 == script_.size()) return false;
      if (script_[at_ + 1] != '\n') text_ += script_[at_ + 1];
      at_ += 2;
      return true;
    }
    // Names of files, braces and home folders are expanded, too.
    if (std::string_view("*?[{").find(c) != std::string_view::npos) literal_ = false;
    if (c == '~' && text_.empty()) literal_ = false;
    text_ += c;
    ++at_;
    return true;
  }

  bool TakeSingleQuotes() {
    const size_t end = script_.find('\'', at_ + 1);
    if (end == script_.npos) return false;
    text_ += script_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  bool TakeDoubleQuotes() {
    ++at_;
    while (at_ < script_.size() && script_[at_] != '"') {
      const char c = script_[at_];
      if (c == '$' || c == '`') {
        if (!TakeExpansion()) return false;
        continue;
      }
      const bool escapes = c == '\\' && at_ + 1 < script_.size() &&
                           std::string_view("$`\"\\\n").find(script_[at_ + 1]) != std::string::npos;
      if (escapes && script_[at_ + 1] != '\n') text_ += script_[at_ + 1];
      if (!escapes) text_ += c;
      at_ += escapes ? 2 : 1;
    }
    if (at_ == script_.size()) return false;
    ++at_;
    return true;
  }

  bool TakeExpansion() {
    const size_t begin = at_++;
    if (script_[begin] == '`') {
      const size_t end = script_.find('`', at_);
      if (end == script_.npos) return false;
      literal_ = false;
      at_ = end + 1;
      return true;
    }
    const char next = at_ < script_.size() ? script_[at_] : ' ';
    if (next == '{' || next == '(') {
      literal_ = false;
      return SkipBrackets(next, next == '{' ? '}' : ')');
    }
    const bool name =
        IsLetterOrDigit(next) || std::string_view("_@*#?-$!").find(next) != std::string_view::npos;
    if (name) {
      literal_ = false;
    } else {
      text_ += '$';
    }
    return true;
  }

  // From an opening bracket to the one that closes it. Quotes hide brackets.
  bool SkipBrackets(char open, char close) {
    int depth = 0;
    while (at_ < script_.size()) {
      const char c = script_[at_++];
      if (c == '\\') {
        ++at_;
      } else if (c == '\'' || c == '"') {
        at_ = script_.find(c, at_);
        if (at_ == script_.npos) break;
        ++at_;
      } else if (c == open) {
        ++depth;
      } else if (c == close && --depth == 0) {
        return true;
      }
    }
    at_ = script_.size();
    return false;
  }

  const std::string_view script_;
  size_t at_ = 0;
  std::vector<ShellToken> tokens_;
  bool command_next_ = true;
  bool target_next_ = false;  // the next word is the file of a redirection
  bool literal_ = true;       // of the present word
  std::string text_;          // of the present word
};

}  // namespace

std::optional<std::vector<ShellToken>> DivideScript(std::string_view script) {
  return Divider(script).Divide();
}

}  // namespace longhaul::engines::kubernetes
