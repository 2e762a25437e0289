package io.budgetd;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Turns the records of the API into values of JSON, and back. */
final class Records {
  private Records() {}

  /** Returns the value of a record, a list or a map; what is null in a record is left out. */
  static Object tree(Object value) {
    if (value instanceof Record record) {
      Map<String, Object> all = new LinkedHashMap<>();
      for (RecordComponent component : record.getClass().getRecordComponents()) {
        Object member = component(record, component);
        if (member != null) {
          all.put(name(component.getName()), tree(member));
        }
      }
      return all;
    }
    if (value instanceof List<?> list) {
      return new ArrayList<>(list.stream().map(Records::tree).toList());
    }
    if (value instanceof Map<?, ?> map) {
      Map<String, Object> all = new LinkedHashMap<>();
      map.forEach((name, member) -> all.put((String) name, tree(member)));
      return all;
    }
    return value;
  }

  /** Returns the record of a value. Members that it does not have are ignored. */
  static <T> T of(Class<T> type, Object tree) {
    return type.cast(value(type, tree));
  }

  private static Object value(Type type, Object tree) {
    if (tree == null) {
      return type == long.class ? (Object) 0L
          : type == double.class ? (Object) 0.0 : type == boolean.class ? (Object) false : null;
    }
    if (type instanceof ParameterizedType of) {
      Type last = of.getActualTypeArguments()[of.getActualTypeArguments().length - 1];
      if (of.getRawType() == List.class && tree instanceof List<?> list) {
        List<Object> all = new ArrayList<>();
        list.forEach(one -> all.add(value(last, one)));
        return all;
      }
      if (of.getRawType() == Map.class && tree instanceof Map<?, ?> map) {
        Map<Object, Object> all = new LinkedHashMap<>();
        map.forEach((name, one) -> all.put(name, value(last, one)));
        return all;
      }
    } else if (type instanceof Class<?> c && c.isRecord() && tree instanceof Map<?, ?> map) {
      return record(c, map);
    } else if ((type == double.class || type == Double.class) && tree instanceof Number number) {
      return number.doubleValue();
    } else if (type == Object.class
        || (type == String.class) && tree instanceof String
        || (type == long.class || type == Long.class) && tree instanceof Long
        || (type == boolean.class || type == Boolean.class) && tree instanceof Boolean) {
      return tree;
    }
    throw new IllegalArgumentException("a member is not a " + type.getTypeName());
  }

  private static Object record(Class<?> type, Map<?, ?> tree) {
    RecordComponent[] components = type.getRecordComponents();
    Class<?>[] types = new Class<?>[components.length];
    Object[] values = new Object[components.length];
    for (int i = 0; i < components.length; i++) {
      types[i] = components[i].getType();
      String name = name(components[i].getName());
      values[i] = value(components[i].getGenericType(), tree.get(name));
    }
    try {
      return type.getDeclaredConstructor(types).newInstance(values);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static Object component(Record record, RecordComponent component) {
    try {
      return component.getAccessor().invoke(record);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Returns the name of a member in JSON. */
  private static String name(String component) {
    StringBuilder out = new StringBuilder();
    for (char letter : component.toCharArray()) {
      if (Character.isUpperCase(letter)) {
        out.append('_');
      }
      out.append(Character.toLowerCase(letter));
    }
    boolean reserved = component.endsWith("_");
    return reserved ? out.substring(0, out.length() - 1) : out.toString();
  }
}
