package io.budgetd;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON: Map, List, String, Long, Double, Boolean and null. It is strict: a name
 * that occurs twice, text after the value and an integer beyond 64 bits are errors.
 */
final class Json {
  private static final int MAX_DEPTH = 100;

  private final String text;
  private int at;
  private int depth;

  private Json(String text) {
    this.text = text;
  }

  /** Returns the value of a text in UTF-8. */
  static Object read(byte[] bytes) {
    try {
      return read(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
    } catch (CharacterCodingException e) {
      throw new IllegalArgumentException("JSON: not UTF-8", e);
    }
  }

  /** Returns the value of a text. */
  static Object read(String text) {
    Json json = new Json(text);
    Object value = json.value();
    if (json.next() != 0) {
      throw json.wrong("text after the value");
    }
    return value;
  }

  /** Returns the text of a value; members of a map are in its order. */
  static String write(Object value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private Object value() {
    char first = next();
    switch (first) {
      case '{', '[':
        if (++depth > MAX_DEPTH) {
          throw wrong("nested too deeply");
        }
        Object all = first == '{' ? object() : array();
        depth--;
        return all;
      case '"':
        return string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", null);
      default:
        return number();
    }
  }

  private Map<String, Object> object() {
    Map<String, Object> all = new LinkedHashMap<>();
    at++;
    if (taken('}')) {
      return all;
    }
    do {
      if (next() != '"') {
        throw wrong("a name is missing");
      }
      String name = string();
      if (!taken(':')) {
        throw wrong("a colon is missing");
      }
      if (all.containsKey(name)) {
        throw wrong("a name occurs twice");
      }
      all.put(name, value());
    } while (taken(','));
    if (!taken('}')) {
      throw wrong("an object does not end");
    }
    return all;
  }

  private List<Object> array() {
    List<Object> all = new ArrayList<>();
    at++;
    if (taken(']')) {
      return all;
    }
    do {
      all.add(value());
    } while (taken(','));
    if (!taken(']')) {
      throw wrong("an array does not end");
    }
    return all;
  }

  private String string() {
    StringBuilder all = new StringBuilder();
    at++;
    while (true) {
      char letter = letter();
      if (letter == '"') {
        return whole(all.toString());
      }
      if (letter < ' ') {
        throw wrong("a control character in a text");
      }
      all.append(letter == '\\' ? escaped() : letter);
    }
  }

  private char escaped() {
    char letter = letter();
    switch (letter) {
      case '"', '\\', '/':
        return letter;
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        int code = 0;
        for (int i = 0; i < 4; i++) {
          char digit = letter();
          int value = digit < 128 ? Character.digit(digit, 16) : -1;
          if (value < 0) {
            throw wrong("an unknown escape");
          }
          code = code * 16 + value;
        }
        return (char) code;
      default:
        throw wrong("an unknown escape");
    }
  }

  private Object number() {
    int from = at;
    if (at < text.length() && text.charAt(at) == '-') {
      at++;
    }
    int first = at;
    boolean zero = at < text.length() && text.charAt(at) == '0';
    if (digits() == 0 || zero && at - first > 1) {
      throw wrong("no value");
    }
    boolean integer = true;
    if (at < text.length() && text.charAt(at) == '.') {
      integer = false;
      at++;
      if (digits() == 0) {
        throw wrong("a number without a digit");
      }
    }
    if (at < text.length() && (text.charAt(at) == 'e' || text.charAt(at) == 'E')) {
      integer = false;
      at++;
      if (at < text.length() && (text.charAt(at) == '+' || text.charAt(at) == '-')) {
        at++;
      }
      if (digits() == 0) {
        throw wrong("a number without a digit");
      }
    }
    String number = text.substring(from, at);
    return integer ? (Object) Long.valueOf(number) : (Object) Double.valueOf(number);
  }

  private int digits() {
    int from = at;
    while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
      at++;
    }
    return at - from;
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw wrong("no value");
    }
    at += word.length();
    return value;
  }

  /** Returns the next character that is no space; 0 at the end. */
  private char next() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    if (at < text.length() && text.charAt(at) == 0) {
      throw wrong("a control character");
    }
    return at < text.length() ? text.charAt(at) : 0;
  }

  private boolean taken(char letter) {
    boolean is = next() == letter;
    at += is ? 1 : 0;
    return is;
  }

  private char letter() {
    if (at == text.length()) {
      throw wrong("a text does not end");
    }
    return text.charAt(at++);
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException("JSON: " + what + " at " + at);
  }

  private static void write(Object value, StringBuilder out) {
    if (value instanceof String text) {
      quote(text, out);
    } else if (value instanceof Map<?, ?> map) {
      String before = "{";
      for (Map.Entry<?, ?> member : map.entrySet()) {
        out.append(before);
        quote((String) member.getKey(), out);
        write(member.getValue(), out.append(':'));
        before = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof List<?> list) {
      String before = "[";
      for (Object one : list) {
        write(one, out.append(before));
        before = ",";
      }
      out.append(list.isEmpty() ? "[]" : "]");
    } else if (value instanceof Double number && !Double.isFinite(number)) {
      throw new IllegalArgumentException("JSON: " + number + " is no number");
    } else if (value == null || value instanceof Boolean || value instanceof Number) {
      out.append(value);
    } else {
      throw new IllegalArgumentException("JSON: no text for a " + value.getClass().getName());
    }
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (char letter : whole(text).toCharArray()) {
      if (letter == '"' || letter == '\\') {
        out.append('\\').append(letter);
      } else if (letter < ' ') {
        out.append(String.format("\\u%04x", (int) letter));
      } else {
        out.append(letter);
      }
    }
    out.append('"');
  }

  /** Returns a text, if UTF-8 can encode it: no half of a character may stand alone. */
  private static String whole(String text) {
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(text)) {
      throw new IllegalArgumentException("JSON: half of a character in a text");
    }
    return text;
  }
}
